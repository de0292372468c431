"""`fdglm graph`: its table, its JSON, its drawing, and how it fails."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fdglm_cli.graph import command
from fdglm_fast import network_plot
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.network import Network, build_network
from fdglm_fast.network_plot import draw_network, layout, save_drawing

SVG = "{http://www.w3.org/2000/svg}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def report(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    found: dict[str, Any] = json.loads(result.stdout, parse_constant=refuse)
    return found


def test_json_of_a_ring() -> None:
    found = report("--agents", "10", "--graph", "ring", "--seed", "3")
    graph = found["graph"]
    assert found["agents"] == 10 and found["plot"] is None
    assert graph["spec"] == "ring" and graph["weights"] == "unit"
    assert graph["seed"] is None and graph["attempt"] == 0
    assert graph["edges"] == 10 and graph["max_degree"] == 2 and graph["diameter"] == 5 and graph["connected"]
    assert graph["degrees"] == graph["weighted_degrees"] == {"min": 2, "mean": 2, "max": 2}
    gap = 4 * math.sin(math.pi / 10) ** 2
    assert graph["laplacian_norm"] == pytest.approx(4.0)
    assert graph["spectral_gap"] == pytest.approx(gap)
    assert graph["pseudoinverse_norm"] == pytest.approx(1 / gap)
    bounds = found["bounds"]
    assert list(bounds) == ["degree", "mohar", "mckay", "ramanujan"]
    assert bounds["degree"]["bound"] == 4 and bounds["degree"]["holds"] is True
    assert bounds["mohar"]["bound"] == pytest.approx(5 - 1 - math.log(9))
    assert bounds["mckay"]["bound"] == 12.5
    assert bounds["ramanujan"]["bound"] == 0 and bounds["ramanujan"]["exact"] == pytest.approx(gap)


def test_json_of_weights_and_attempts() -> None:
    found = report("--agents", "16", "--graph", "er:0.14", "--seed", "1", "--weights", "metropolis")
    network = build_network("er:0.14", 16, 1, "metropolis")
    assert found["graph"]["seed"] == 1 and found["graph"]["attempt"] == network.attempt
    assert found["graph"]["weighted_degrees"]["max"] == network.weighted_degrees.max()
    assert found["bounds"]["mckay"]["bound"] is None and found["bounds"]["mckay"]["reason"]


def test_json_of_one_agent() -> None:
    found = report("--agents", "1", "--graph", "complete")
    assert found["graph"]["laplacian_norm"] == 0 and found["graph"]["spectral_gap"] is None
    assert found["bounds"] == {}


def test_table_names_everything() -> None:
    result = run("--agents", "12", "--graph", "star")
    assert result.exit_code == 0
    for word in ("star", "11", "degrees", "connected", "diameter", "||L||", "12", "spectral gap", "mckay"):
        assert word in result.stdout
    assert "no graph" not in result.stdout and "regular" in result.stdout


def test_table_takes_a_file_name_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "[red]g\x1b.txt"
    path.write_text("0 1\n")
    result = run("--agents", "2", "--graph", f"file:{path}")
    assert result.exit_code == 0 and "\x1b" not in result.stdout
    assert "[red]g\\x1b.txt" in result.stdout.replace("\n", "").replace(" ", "")


def test_errors_carry_their_exit_codes(tmp_path: Path) -> None:
    wrong = run("--agents", "4", "--graph", "rgh")
    assert isinstance(wrong.exception, UsageError) and "'rgg'" in str(wrong.exception)
    bad = run("--agents", "4", "--graph", f"file:{tmp_path / 'none'}")
    assert isinstance(bad.exception, DataError)
    assert run("--agents", "0", "--graph", "ring").exit_code == 2
    assert run("--graph", "ring").exit_code == 2
    assert run("--agents", "4", "--graph", "ring", "--seed", "-1").exit_code == 2


def test_help_and_usage_errors_import_nothing_heavy() -> None:
    code = (
        "import sys\nfrom fdglm_cli.graph import command\nfrom fdglm_fast.errors import UsageError\n"
        "try: command(['--agents', '4', '--graph', 'rgh'])\nexcept UsageError: pass\n"
        "heavy = {'scipy', 'numba', 'matplotlib', 'networkx', 'h5py', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the drawing ---


def test_plot_is_written_once(tmp_path: Path) -> None:
    target = tmp_path / "net.svg"
    arguments = ("--agents", "9", "--graph", "lattice", "--plot", str(target))
    assert report(*arguments)["plot"] == str(target)
    first = target.read_bytes()
    assert ElementTree.fromstring(first).tag == f"{SVG}svg"
    again = run(*arguments)
    assert isinstance(again.exception, UsageError) and "exists" in str(again.exception)
    target.write_text("old")
    refused = run(*arguments)
    assert isinstance(refused.exception, UsageError) and target.read_text() == "old"
    assert run(*arguments, "--force").exit_code == 0
    assert target.read_bytes() == first
    assert os.listdir(tmp_path) == ["net.svg"]


def test_plot_paths_are_checked_first(tmp_path: Path) -> None:
    for path in (tmp_path / "net.png", tmp_path / "none" / "net.svg"):
        # The graph is hopeless as well: the complaint about the path comes before any drawing of graphs.
        result = run("--agents", "40", "--graph", "er:0.001", "--plot", str(path))
        assert isinstance(result.exception, UsageError)
    (tmp_path / "folder.svg").mkdir()
    result = run("--agents", "4", "--graph", "ring", "--plot", str(tmp_path / "folder.svg"), "--force")
    assert isinstance(result.exception, UsageError)
    assert sorted(os.listdir(tmp_path)) == ["folder.svg"]


def test_a_failed_drawing_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "net.svg"
    target.write_text("old")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(UsageError, match="No space left"):
        save_drawing(build_network("ring", 5), str(target), force=True)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["net.svg"]


@pytest.mark.parametrize(
    "spec", ["complete", "star", "er:0.5", "lattice", "rgg:0.6", "ring", "path", "regular:3", "hypercube"]
)
def test_layouts_keep_agents_apart(spec: str) -> None:
    points = layout(build_network(spec, 16))
    assert points.shape == (16, 2) and np.isfinite(points).all()
    distance = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    distance[np.diag_indices(16)] = np.inf
    assert distance.min() > 0.01 * np.ptp(points)


def count_edges_drawn(svg: bytes) -> int:
    collections = [
        g for g in ElementTree.fromstring(svg).iter(f"{SVG}g") if g.get("id", "").startswith("LineCollection")
    ]
    return sum(len(list(g.iter(f"{SVG}path"))) for g in collections)


def test_drawing_shows_every_edge_and_label() -> None:
    svg = draw_network(build_network("ring", 7))
    assert count_edges_drawn(svg) == 7
    labels = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert [label for label in labels if label and label.isdigit()] == [str(k) for k in range(1, 8)]
    assert svg == draw_network(build_network("ring", 7))


@pytest.mark.parametrize(("spec", "m"), [("complete", 1), ("path", 2), ("lattice", 7), ("ring", 200)])
def test_odd_sizes_can_be_drawn(spec: str, m: int) -> None:
    assert b"<svg" in draw_network(build_network(spec, m))


def test_many_edges_are_a_picture_of_a_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_plot, "SHOWN_EDGES", 2000)
    monkeypatch.setattr(network_plot, "VECTOR_EDGES", 1000)
    svg = draw_network(build_network("complete", 80))
    assert b"<image" in svg and b"3160 edges (2000 drawn)" in svg
    assert count_edges_drawn(svg) == 0
    assert b"<image" not in draw_network(build_network("complete", 40))


def test_a_title_is_text_and_nothing_else() -> None:
    network = Network(2, np.array([[0, 1]]), np.ones(1), spec="file:$x^$<b>\x07\u4e2d&.txt")
    svg = draw_network(network)
    titles = [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert any("$x^$<b>" in title and "\\u4e2d" in title for title in titles)

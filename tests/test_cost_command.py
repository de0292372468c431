"""`fdglm cost`: its tables and JSON, the check that a changed update does not pass, and how it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result

from fdglm_cli.cost import command
from fdglm_fast.cost.model import normalized_cost, paper_cost
from fdglm_fast.cost.timing import PRESETS
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.network import build_network

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("--samples", "100", "--features", "20", "--agents", "6", "--graph", "ring", "--no-executed")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def report(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    found: dict[str, Any] = json.loads(result.stdout, parse_constant=refuse)
    return found


def test_the_papers_size_passes_the_check() -> None:
    size = ("--samples", "16384", "--features", "2048", "--agents", "256", "--graph", "rgg")
    found = report(*size, "--check")
    network = build_network("rgg", 256)
    assert found["check"]["passed"] and found["check"]["differences"] == []
    assert found["check"]["counted_outright"] == {"n": 2, "d": 2048, "agents": 256, "edges": len(network.edges)}
    delta = network.max_degree
    one = found["operations"]["max_degree_agent"]
    assert (one["d_j"], one["degree"]) == (8, delta)
    total = one["phases"]["total"]
    # No penalty: 3 d_j less than the formula.
    assert total["model"] == total["counted"] == 16384 * (4 * 8 + 2 * delta + 7) + 2 * 8
    assert total["counted_with_doublings"] == total["counted"] + 16384 + 8
    assert found["paper"]["per_agent"] == paper_cost(16384, 2048, 256, delta)
    assert found["paper"]["single_agent"] == 16384 * (4 * 2048 + 1) + 5 * 2048
    assert found["paper"]["normalized"] == normalized_cost(16384, 2048, 256, delta)
    everyone = found["operations"]["total"]
    assert everyone["total"]["counted_minus_model"] == 0
    assert everyone["theta"]["executed_minus_model"] == 0  # 16384 is a whole number of tiles
    assert everyone["v"]["executed_minus_model"] < 0 < everyone["shared"]["executed"]  # sums are shared
    assert everyone["total"]["executed"] < everyone["total"]["model"]


def test_json_of_a_ring() -> None:
    found = report(*SMALL, "--penalty", "l1", "--reg", "0.1", "--dtype", "f32")
    agents = found["operations"]["agents"]
    assert [one["d_j"] for one in agents] == [4, 4, 3, 3, 3, 3]
    for one in agents:
        expected = 100 * (4 * one["d_j"] + 2 * 2 + 7) + 5 * one["d_j"]
        assert one["phases"]["total"]["counted"] == one["phases"]["total"]["model"] == expected
        assert one["phases"]["total"]["executed"] is None
    assert found["operations"]["polynomials"]["v"] == "n deg_j + 3 n"
    assert found["messages"]["per_agent"]["bytes"] == {"min": 1600, "mean": 1600.0, "max": 1600}
    assert found["messages"]["per_edge"] == {"messages": 4, "numbers": 400, "bytes": 1600}
    assert found["messages"]["total"] == {"messages": 24, "numbers": 2400, "bytes": 9600}
    assert found["memory"]["largest"]["index"] == 0
    assert sum(found["memory"]["agents"]) == found["memory"]["total"]
    assert list(found["time"]) == list(PRESETS)
    for one in found["time"].values():
        assert sum(one["shares"].values()) == pytest.approx(1.0)
    assert found["check"] is None


def test_one_agent() -> None:
    found = report("--samples", "50", "--features", "7", "--agents", "1", "--penalty", "l1", "--no-executed", "--check")
    total = found["operations"]["total"]["total"]
    assert total["counted"] == total["model"] == 50 * (4 * 7 + 1) + 5 * 7
    assert found["paper"]["normalized"] == 1.0
    assert found["messages"]["total"]["bytes"] == 0


def test_a_loss_without_a_figure_in_the_paper() -> None:
    found = report(*SMALL, "--loss", "logistic", "--check")
    dual = found["operations"]["total"]["dual"]
    assert dual["model"] is None and dual["counted"] > 100 * 20
    assert found["operations"]["dual_exact"] is False
    assert found["operations"]["dual_per_sample"]["min"] < found["operations"]["dual_per_sample"]["max"]
    assert "depends on the data" in run(*SMALL, "--loss", "logistic").output


def test_sizes_and_partition_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.zeros((30, 5), np.float32)
        file["y"] = np.zeros(30)
        file["partition"] = np.array([1, 0, 1, 1, 2])
    found = report(str(path), "--agents", "3", "--graph", "path", "--no-executed", "--check")
    assert found["data"] == {"path": str(path), "n": 30, "d": 5, "dtype": "float32"}
    assert [one["d_j"] for one in found["operations"]["agents"]] == [1, 3, 1]
    assert found["operations"]["max_degree_agent"]["index"] == 1
    refused = run(str(path), "--agents", "2", "--no-executed")
    assert isinstance(refused.exception, DataError)


def test_tables() -> None:
    result = run(*SMALL, "--all", "--check", "--scale", "--network", "internet", "--latency", "0")
    assert result.exit_code == 0, result.output
    for words in (
        "of the largest degree",
        "every agent",
        "normalised cost",
        "counted = model",
        "1,000,000",
        "internet",
    ):
        assert words in result.output
    assert "sensor-network" not in result.output


def test_derivation() -> None:
    found = report("--derive", "--check")
    assert list(found) == ["derivation"]
    assert all(one["confirmed"] for one in found["derivation"])
    text = run("--derive").output
    assert "4 n d_j + 2 n deg_j + 7 n + 5 d_j" in text
    assert text.count("every coefficient is the same") == 5


def test_links() -> None:
    own = report(*SMALL, "--flops", "50e9", "--latency", "1e-3", "--bandwidth", "1e8")["time"]
    assert list(own) == ["given"]
    assert own["given"]["seconds"]["latency"] == 2e-3
    assert own["given"]["seconds"]["transfer"] == pytest.approx(2 * 2 * 100 * 8 / 1e8)
    amended = report(*SMALL, "--network", "data-centre", "--latency", "1")["time"]["data-centre"]
    assert (amended["flops"], amended["latency"]) == (PRESETS["data-centre"].flops, 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--agents", "3"), "how large"),
        (("--samples", "10", "--agents", "3"), "go together"),
        (("--samples", "10", "--features", "3"), "--agents"),
        (("--samples", "10", "--features", "3", "--agents", "4"), "more agents"),
        (("file.h5", "--samples", "10", "--features", "3", "--agents", "2"), "not both"),
        (("--scale",), "how large"),
        (("--samples", "10", "--features", "3", "--scale", "--check"), "--check needs"),
        ((*SMALL, "--network", "internett"), "did you mean 'internet'"),
        ((*SMALL, "--flops", "1e9"), "go together"),
        ((*SMALL, "--network", "internet", "--flops", "-1"), "--flops must be"),
        ((*SMALL, "--loss", "squard"), "did you mean 'squared'"),
        ((*SMALL, "--graph", "rign"), "did you mean 'ring'"),
    ],
)
def test_wrong_usage_is_a_sentence(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, UsageError), result.output
    assert words in str(result.exception)


def test_closed_forms_need_no_compiler() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from fdglm_cli.cost import command\n"
        "done = CliRunner().invoke(command, ['--samples', '100', '--features', '20', '--scale', '--json'])\n"
        "assert done.exit_code == 0, done.output\n"
        "heavy = {'numba', 'scipy', 'h5py', 'matplotlib', 'networkx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the check on a changed copy ---

UPDATES, THETA, FORMULAS, PENALTIES, LOSSES = (
    f"kernels/{name}.py" for name in ("updates", "theta", "formulas", "penalties", "losses")
)
CHANGES = {  # a file, what it says, and what it says in the copy
    "v": (UPDATES, "laplacian(near.degree[j], lam, around))", "laplacian(near.degree[j], lam, around)) + 0.0 * lam"),
    "theta": (THETA, "        theta[c] = new[c]\n", "        theta[c] = new[c] * 1.0\n"),
    "outside": (
        UPDATES,
        "    if steps.fast:\n        if",
        "    state.lam[tile, j, 0] *= 1.0\n    if steps.fast:\n        if",
    ),
    "prox": (PENALTIES, "excess = abs(x) - threshold", "excess = abs(x) - threshold + 0.0"),
    "dual step": (LOSSES, "return (a - s * y) / (1.0 + s)", "return (a - s * y) / (1.0 + s) + 0.0"),
    "one less": (FORMULAS, "return old + step * slope", "return old + slope"),
    "uncountable": (FORMULAS, "return old + step * slope", "return float(old + step * slope)"),
}


def check_copy(folder: Path, change: tuple[str, str, str] | None) -> subprocess.CompletedProcess[str]:
    """`fdglm cost --check` with a copy of the sources in which one line is changed."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fdglm_fast", folder / "fdglm_fast", ignore=ignore)
    shutil.copytree(ROOT / "cli", folder / "fdglm_cli", ignore=ignore)
    if change is not None:
        name, old, new = change
        path = folder / "fdglm_fast" / name
        text = path.read_text()
        assert text.count(old) == 1, (name, old)
        path.write_text(text.replace(old, new))
    arguments = (*SMALL, "--penalty", "l1", "--reg", "0.1", "--check")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "fdglm_cli.main", "cost", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unchanged_copy_passes(tmp_path: Path) -> None:
    done = check_copy(tmp_path, None)
    assert done.returncode == 0, done.stderr
    assert "counted = model" in done.stdout


def test_the_fast_method_is_counted_too() -> None:
    """Weighted edges, a penalty, one agent: counted operations are those of the model, and messages are halved."""
    for more in ((), ("--weights", "metropolis"), ("--penalty", "group-l2"), ("--agents", "1")):
        arguments = [
            *SMALL,
            "--penalty",
            "l1",
            "--reg",
            "0.1",
            "--method",
            "fast",
            "--check",
            "--json",
            "--no-executed",
        ]
        done = CliRunner().invoke(command, [*arguments, *more])
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert report["check"]["passed"] and report["method"] == "fast"
        assert report["paper"]["fast"]["per_agent"] > 0
        paper = json.loads(CliRunner().invoke(command, [*SMALL, *more, "--json"]).stdout)
        assert 2 * report["messages"]["total"]["bytes"] == paper["messages"]["total"]["bytes"]


@pytest.mark.parametrize("name", CHANGES)
def test_one_operation_more_or_less_fails(tmp_path: Path, name: str) -> None:
    done = check_copy(tmp_path, CHANGES[name])
    assert done.returncode == 1, done.stdout + done.stderr
    if name == "uncountable":
        assert "cannot be counted" in done.stderr and "Traceback" not in done.stderr
    else:
        assert "FAILED" in done.stdout

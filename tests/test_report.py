"""Reports: which runs belong together, curves over seeds, the paper's claims, tables, files and the page's text."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_tools import fdglm, snapshot, strict_json
from report_tools import PAPER_ERRORS, TIMES, made_report, made_run, paper_runs, write_folder, write_result

from fdglm_fast.cost.model import messages, normalized_cost
from fdglm_fast.cost.timing import PRESETS, iteration_seconds
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.network import build_network
from fdglm_fast.partition import contiguous
from fdglm_fast.report.axes import BYTES, ITERATIONS, OPERATIONS, SECONDS
from fdglm_fast.report.claims import FAILS, HOLDS, MISSING, check_claims
from fdglm_fast.report.curves import curve
from fdglm_fast.report.drawing import SHOWN_EDGES, small_drawing
from fdglm_fast.report.figures import figures
from fdglm_fast.report.operations import count_study, operation_table
from fdglm_fast.report.pdf import figure_pdf
from fdglm_fast.report.study import RELATIVE_ERROR, RESIDUAL, Study, studies
from fdglm_fast.report.svg import figure_svg
from fdglm_fast.report.table import Column, Table
from fdglm_fast.report.tables import best_table, bound_table, network_table, run_table, summary_table
from fdglm_fast.report.write import write_report
from fdglm_fast.runs import Run, read_folder

SVG = "{http://www.w3.org/2000/svg}"


def study_of(runs: list[Run]) -> Study:
    (found,) = studies(runs)
    return found


# --- studies and curves -------------------------------------------------------------------------------------


def test_runs_are_sorted_into_studies() -> None:
    squared = [made_run("star", 4, -1.0), made_run(None, 1, -2.0)]
    huber = [made_run("star", 4, -1.0, loss="huber:1"), made_run(None, 1, -2.0, loss="huber:1")]
    found = studies([*squared, *huber])
    assert [len(each.runs) for each in found] == [2, 2] and found[0].title != found[1].title
    weighted = made_report("star", 4, -1.0)
    weighted["graph"]["weights"] = "metropolis"
    apart = studies([*squared, Run("w.h5", weighted)])
    assert [len(each.runs) for each in apart] == [2, 2]  # the single agent counts for both
    assert all(each.single for each in apart)


def test_of_two_runs_of_one_network_the_longer_is_shown() -> None:
    short = made_report("star", 4, -1.0, iterations=512)
    short["trace"] = short["trace"][:10]
    found = study_of([Run("short.h5", short), made_run("star", 4, -1.0), made_run("star", 8, -1.0)])
    assert len(found.runs) == 2 and "short.h5" in found.left_out[0]
    assert found.cell("star", 4)[0].iterations == 5000


def test_values_between_records_are_straight_in_the_logarithms() -> None:
    run = made_run("star", 4, -3.0)
    found = study_of([run])
    assert found.value(run, 5000) == pytest.approx(1e-3) and found.value(run, 1) == pytest.approx(1.0)
    assert found.value(run, 40) == pytest.approx(10 ** (-3.0 * np.log(40) / np.log(5000)))
    assert np.isnan(found.value(run, 5001)) and np.isnan(found.value(run, 0.5))


def test_a_curve_is_the_median_and_the_range() -> None:
    runs = [made_run("er:0.5", 32, final, seed=k) for k, final in enumerate((-1.0, -4.0, -2.0))]
    found = curve(study_of(runs), runs, ITERATIONS)
    assert found is not None and found.low is not None and found.high is not None
    assert found.x.tolist() == [0.0, *TIMES] and found.y[0] == 0.0
    assert (found.y[-1], found.low[-1], found.high[-1]) == pytest.approx((-2.0, -4.0, -1.0))


def test_a_curve_against_cost_is_taken_at_equal_cost() -> None:
    """Seeds with different largest degrees reach a cost after different numbers of iterations."""
    runs = [made_run("er:0.5", 32, -4.0, seed=k) for k in range(3)]
    widths = [normalized_cost(16384, 2048, 32, run.max_degree) for run in runs]
    assert len(set(widths)) > 1
    found = curve(study_of(runs), runs, OPERATIONS, 32.0)
    assert found is not None and found.x[-1] == 32.0
    expected = sorted(-4.0 * np.log(32.0 / width) / np.log(5000.0) for width in widths)
    assert found.y[-1] == pytest.approx(expected[1])
    assert found.low is not None and found.low[-1] == pytest.approx(expected[0])


def test_the_axes_are_the_cost_model() -> None:
    run = made_run("rgg", 64, -1.0, seed=2)
    network = build_network("rgg", 64, 2)
    assert OPERATIONS.width(run) == normalized_cost(16384, 2048, 64, network.max_degree)
    assert BYTES.width(run) == messages(network, 16384, 8).total_bytes == 4 * len(network.edges) * 16384 * 8
    sizes = contiguous(2048, 64).sizes
    for name, link in PRESETS.items():
        assert SECONDS[name].width(run) == iteration_seconds(network, sizes, 16384, 8, link).total
    assert OPERATIONS.width(made_run(None, 1, -1.0)) == 1.0


def test_without_errors_the_residual_is_shown() -> None:
    report = made_report("star", 4, -2.0)
    for record in report["trace"]:
        record["relative_error_average"] = None
    runs = [Run("a.h5", report), made_run("star", 8, -2.0)]
    assert study_of(runs).measure is RESIDUAL and study_of(runs[1:]).measure is RELATIVE_ERROR
    assert study_of(runs).value(runs[0], 5000) == pytest.approx(0.1)
    assert all("optimality residual" in panel.y.label for each in figures(study_of(runs)) for panel in each.panels)


def test_errors_that_are_not_positive_have_a_floor() -> None:
    report = made_report("star", 4, -2.0)
    report["trace"][-1]["relative_error_average"] = -1e-16
    run = Run("a.h5", report)
    assert study_of([run]).value(run, 5000) == pytest.approx(1e-17)
    assert next(figures(study_of([run]))).panels


# --- claims -------------------------------------------------------------------------------------------------

COMPLETE, BEST_64, BEST_128, BEST_256, DEGRADES, SIMILAR, STAR, LATTICE, EQUAL_ER, EQUAL_RGG = range(10)


def statuses(errors: dict[str, dict[int, float]]) -> list[str]:
    return [each.status for each in check_claims(study_of(paper_runs(errors)))]


def test_the_claims_hold_where_they_should() -> None:
    verdicts = check_claims(study_of(paper_runs()))
    assert [each.status for each in verdicts] == [HOLDS] * 10
    assert [each.seeds for each in verdicts] == ["3 of 3", "", *["3 of 3"] * 4, "", "", "3 of 3", "3 of 3"]
    assert " 64: -6.70" in verdicts[BEST_64].figures


@pytest.mark.parametrize(
    ("graph", "agents", "error", "failing"),
    [
        ("er:0.5", 64, -6.9, {COMPLETE, BEST_128}),
        ("complete", 128, -6.8, {BEST_64}),
        ("er:0.5", 512, -5.6, {BEST_128}),
        ("er:0.1", 512, -3.8, {BEST_256, SIMILAR}),
        ("er:0.1", 64, -5.2, {BEST_256, DEGRADES, SIMILAR}),
        ("rgg", 128, -2.4, {SIMILAR}),
        ("star", 256, -0.6, {STAR}),
        ("lattice", 512, -0.8, {LATTICE}),
        ("er:0.1", 256, -0.6, {BEST_256, SIMILAR, EQUAL_ER}),
        ("rgg", 256, -0.6, {SIMILAR, EQUAL_RGG}),
    ],
)
def test_each_claim_can_fail(graph: str, agents: int, error: float, failing: set[int]) -> None:
    errors = copy.deepcopy(PAPER_ERRORS)
    errors[graph][agents] = error
    found = statuses(errors)
    assert {k for k, status in enumerate(found) if status == FAILS} == failing
    assert MISSING not in found


def test_claims_about_runs_that_are_missing() -> None:
    found = statuses({"star": PAPER_ERRORS["star"], "complete": {2: -6.0, 64: -6.7}})
    assert [k for k, status in enumerate(found) if status == HOLDS] == [COMPLETE, STAR]
    assert all(found[k] == MISSING for k in range(10) if k not in (COMPLETE, STAR))


def test_a_claim_is_judged_seed_by_seed() -> None:
    runs = [run for run in paper_runs() if (run.graph, run.agents, run.seed) != ("er:0.5", 512, 1)]
    runs.append(made_run("er:0.5", 512, -6.0, seed=1))  # better than 128 agents, for one seed out of three
    verdict = check_claims(study_of(runs))[BEST_128]
    assert (verdict.status, verdict.seeds) == (HOLDS, "2 of 3")


def test_best_among_smaller_sizes_is_told() -> None:
    errors = copy.deepcopy(PAPER_ERRORS)
    errors["er:0.1"][512] = -3.8
    verdict = check_claims(study_of(paper_runs(errors)))[BEST_256]
    assert verdict.status == FAILS and "among m <= 256 it is best at 256" in verdict.figures


def test_what_comparable_measures() -> None:
    verdict = check_claims(study_of(paper_runs()))[EQUAL_RGG]
    alone = -7.36 * np.log(32) / np.log(5000)
    run = made_run("rgg", 256, -3.3, seed=1)
    several = -3.3 * np.log(32.0 / normalized_cost(16384, 2048, 256, run.max_degree)) / np.log(5000)
    assert f"against {alone:.2f}" in verdict.figures
    assert float(verdict.figures.split()[0]) == pytest.approx(several, abs=0.15)  # the median of other seeds


# --- tables -------------------------------------------------------------------------------------------------


def test_tables_of_the_paper() -> None:
    found = study_of(paper_runs())
    best = {row["graph"]: row for row in best_table(found).rows}
    assert best["complete"]["final"] == 64 and best["er:0.1"]["final"] == 256 and best["star"]["final"] == 2
    summary = {(row["graph"], row["agents"]): row for row in summary_table(found).rows}
    cell = summary["rgg", 128]
    assert cell["seeds"] == 3 and cell["final"] == pytest.approx(10**-2.9)
    assert (cell["final_low"], cell["final_high"]) == pytest.approx((10**-2.91, 10**-2.89))
    assert summary["single", 1]["units"] == pytest.approx(10 ** (-7.36 * np.log(32) / np.log(5000)))
    assert summary["single", 1]["bytes"] == 0
    bound = bound_table(found).rows[0]
    assert bound["times"] == pytest.approx(4.0) and bound["worst_share"] == pytest.approx(0.25)
    networks = network_table(found)
    assert len(networks.rows) == len(networks.pictures) == len(found.runs) - 1
    star = next(row for row in networks.rows if row["graph"] == "star" and row["agents"] == 64)
    assert (star["max_degree"], star["edges"]) == (63, 63)
    assert star["condition"] == pytest.approx(64.0)
    assert len(run_table(found).rows) == len(found.runs)


def test_counted_operations_are_the_modelled_ones() -> None:
    found = study_of([made_run(None, 1, -2.0), made_run("star", 8, -1.0), made_run("complete", 16, -1.0)])
    rows = operation_table(found, count_study(found)).rows
    assert [row["difference"] for row in rows] == [0, 0, 0]
    assert rows[1]["paper"] == 16384 * (4 * 128 + 2 * 15 + 7) + 5 * 128
    assert rows[0]["counted"] == 16384 * (4 * 2048 + 1) + 2 * 2048  # no penalty: 3 d less than the paper


def test_a_table_in_three_formats() -> None:
    columns = (Column("a", "A"), Column("b", "<b>"), Column("c", "C", wide=True))
    table = Table("t", "T", columns, [{"a": 0.1, "b": None, "c": 'x,"<script>'}])
    assert list(csv.reader(io.StringIO(table.as_csv()))) == [["a", "b", "c"], ["0.1", "", 'x,"<script>']]
    assert json.loads(table.as_json())["rows"] == table.rows
    page = table.as_html()
    assert "<script>" not in page and "&lt;script&gt;" in page and "<th>&lt;b&gt;</th>" in page


def test_drawings_stay_small() -> None:
    complete = small_drawing(build_network("complete", 512))
    assert complete.count("L") <= SHOWN_EDGES and len(complete) < 40_000
    star = small_drawing(build_network("star", 5))
    path = ElementTree.fromstring(star).findall("path")
    assert path[0].attrib["d"].count("M") == 4 and path[1].attrib["d"].count("M") == 4


# --- figures ------------------------------------------------------------------------------------------------


def test_figures_have_a_panel_for_each_family_and_the_single_agent_in_each() -> None:
    first, second, sent, *rest = figures(study_of(paper_runs()))
    assert [panel.title for panel in first.panels] == [
        "Complete",
        "Star",
        "Erdős–Rényi, p = 0.5",
        "Erdős–Rényi, p = 0.1",
        "2-D lattice",
        "Random geometric, r = 0.3",
    ]
    for panel in [*first.panels, *second.panels]:
        assert panel.lines[0].label == "single agent" and panel.lines[0].level is None
    assert [line.label for line in first.panels[2].lines[1:]] == [f"{m} agents" for m in (32, 64, 128, 256, 512)]
    assert (second.panels[0].x.low, second.panels[0].x.high) == (0.0, 32.0)
    alone = second.panels[0].lines[0].curve
    assert alone.x[-1] == 32.0 and alone.y[-1] == pytest.approx(-7.36 * np.log(32) / np.log(5000))
    assert all(panel.level == pytest.approx(-7.36) and len(panel.lines) > 4 for panel in sent.panels)
    assert len(rest) == len(PRESETS)


def test_svg_and_pdf_of_a_figure() -> None:
    for figure in figures(study_of(paper_runs(seeds=(0, 1)))):
        root = ElementTree.fromstring(figure_svg(figure))
        texts = [element.text for element in root.iter(f"{SVG}text")]
        assert figure.title in texts and "512 agents" in texts
        lines = [e for e in root.iter(f"{SVG}path") if e.attrib["class"].startswith("line")]
        drawn = sum(len(panel.lines) + (panel.level is not None) for panel in figure.panels)
        assert len(lines) == drawn + len(figure.legend)
        assert "nan" not in figure_svg(figure)
    assert figure_pdf(figure).startswith(b"%PDF") and figure_pdf(figure) == figure_pdf(figure)


@pytest.mark.parametrize("runs", [[made_run(None, 1, -2.0)], [made_run("star", 4, -2.0)]])
def test_figures_of_a_single_run(runs: list[Run]) -> None:
    for figure in figures(study_of(runs)):
        if figure.panels:
            ElementTree.fromstring(figure_svg(figure))
    assert next(figures(study_of(runs))).panels


def test_a_graph_file_that_is_gone(tmp_path: Path) -> None:
    report = made_report("star", 4, -2.0)
    report["graph"]["spec"] = f"file:{tmp_path}/gone.txt"
    run = Run("a.h5", report)
    assert BYTES.width(run) is None and OPERATIONS.width(run) is not None
    first, second, sent, *_ = figures(study_of([run]))
    assert first.panels and second.panels and not sent.panels
    assert network_table(study_of([run])).pictures == [""]


# --- files --------------------------------------------------------------------------------------------------


def test_a_folder_with_other_things_in_it(tmp_path: Path) -> None:
    write_folder(tmp_path, [made_run("star", 4, -1.0)])
    (tmp_path / "broken.h5").write_bytes(b"no")
    write_result(tmp_path / "odd.h5", {"agents": "four"})
    (tmp_path / "notes.txt").write_text("x")
    found = read_folder(tmp_path)
    assert len(found.runs) == 1 and len(found.notes) == 2
    with pytest.raises(DataError, match="not a folder"):
        read_folder(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no results"):
        read_folder(tmp_path / "empty")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs and their report."""
    folder = tmp_path_factory.mktemp("report")
    errors = {graph: {m: values[m] for m in (32, 64)} for graph, values in PAPER_ERRORS.items()}
    write_folder(folder / "runs", paper_runs(errors, seeds=(0, 1)))
    write_report(str(folder / "runs"), str(folder / "page.html"))
    return folder


def test_the_files_of_a_report(written: Path) -> None:
    names = {path.name for path in (written / "page_files").iterdir()}
    drawn = ["figure1", "figure2", "bytes", *(f"seconds-{name}" for name in PRESETS)]
    tables = ["summary", "best", "bound", "networks", "counts", "runs", "claims"]
    assert names == {f"{n}.{s}" for n in drawn for s in ("svg", "pdf")} | {
        f"{n}.{s}" for n in tables for s in ("csv", "json")
    }
    with open(written / "page_files" / "claims.csv", encoding="utf-8") as stream:
        assert [row["status"] for row in csv.DictReader(stream)].count("not measured") == 5


def test_the_page_needs_nothing_else(written: Path) -> None:
    page = (written / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "<script" not in page
    assert not re.search(r"https?://|url\(|@import|src=", page)
    assert page.count("<svg viewBox") >= 6 * 7 and "prefers-color-scheme:dark" in page and "@media print" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    for text in ("made up", "fdglm sweep data.h5 --paper", "ab" * 32, "The paper&#x27;s claims", "numpy 2.0"):
        assert text in page


def test_nothing_is_overwritten_without_force(written: Path) -> None:
    before = snapshot(written)
    with pytest.raises(UsageError, match="exists"):
        write_report(str(written / "runs"), str(written / "page.html"))
    (written / "page.html").rename(written / "kept.html")
    with pytest.raises(UsageError, match="not empty"):
        write_report(str(written / "runs"), str(written / "page.html"))
    (written / "kept.html").rename(written / "page.html")
    assert snapshot(written) == before
    write_report(str(written / "runs"), str(written / "page.html"), force=True)
    after = snapshot(written)
    assert {name: content for name, (content, _) in after.items()} == {n: content for n, (content, _) in before.items()}


def hostile() -> dict[str, Any]:
    bad = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
    report = made_report("star", 4, -1.0, command=bad, loss=f"squared{bad}", version=bad, stop_reason=bad)
    report["data"]["path"] = bad
    report["machine"] = {bad: bad}
    return report


def test_a_page_does_not_run_what_a_result_says(tmp_path: Path) -> None:
    write_folder(tmp_path / "runs", [])
    write_result(tmp_path / "runs" / "a.h5", hostile())
    write_report(str(tmp_path / "runs"), str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page and "<img" not in page and "&lt;script&gt;" in page


def test_the_command(tmp_path: Path) -> None:
    runs = [made_run(None, 1, -3.0, loss="logistic"), made_run("star", 4, -2.0, loss="logistic")]
    write_folder(tmp_path / "runs", [*runs, made_run("ring", 4, -1.0)])
    done = fdglm("report", "runs", "--json", cwd=tmp_path)
    found = strict_json(done.out)
    assert done.code == 0 and found["runs"] == 3 and found["claims"] == []
    assert (tmp_path / "report.html").exists() and (tmp_path / "report_files" / "1-figure1.svg").exists()
    again = fdglm("report", "runs", cwd=tmp_path)
    assert again.code == 2 and "--force" in again.err
    assert fdglm("report", "runs", "-o", "page.txt", cwd=tmp_path).code == 2
    assert fdglm("report", "nowhere", "-o", "p.html", cwd=tmp_path).code == 3

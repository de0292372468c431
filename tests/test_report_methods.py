"""Reports of runs by two methods: which belong together, their lines, their costs, and the table that compares them."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_tools import fdglm, write_problem
from report_tools import FAST_UNITS, PAPER_ERRORS, fast_report, fast_run, made_run, paper_runs, write_folder

from fdglm_fast.cost.model import messages, normalized_cost, paper_cost
from fdglm_fast.cost.timing import PRESETS, exchange_seconds
from fdglm_fast.network import build_network
from fdglm_fast.report.axes import BYTES, ITERATIONS, OPERATIONS, SECONDS
from fdglm_fast.report.claims import check_claims
from fdglm_fast.report.figures import figures
from fdglm_fast.report.methods import TARGETS, equal_table, method_table
from fdglm_fast.report.operations import Counter, operation_table
from fdglm_fast.report.pdf import figure_pdf
from fdglm_fast.report.study import Study, studies
from fdglm_fast.report.svg import figure_svg
from fdglm_fast.report.tables import best_table, bound_table, network_table, run_table, summary_table
from fdglm_fast.report.write import write_report
from fdglm_fast.runs import Run, read_folder

SVG = "{http://www.w3.org/2000/svg}"
END = -8.7  # log10 of the other method's last error; its records are not on the targets
ERRORS = {graph: {m: values[m] for m in (32, 64)} for graph, values in PAPER_ERRORS.items()}


def both() -> list[Run]:
    """The paper's method and the other on the same networks; the other ends after 512 iterations."""
    others = [fast_run(run.graph if run.agents > 1 else None, run.agents, END, seed=run.seed or 0) for run in mixed()]
    return [*mixed(), *others]


def mixed() -> list[Run]:
    return paper_runs(ERRORS, seeds=(0, 1))


def study_of(runs: list[Run]) -> Study:
    (found,) = studies(runs)
    return found


# --- which runs belong together -----------------------------------------------------------------------------


def test_methods_share_a_study() -> None:
    found = study_of(both())
    assert found.methods == ["paper", "fast"] and len(found.runs) == len(both()) and found.left_out == []
    assert found.single is not None and found.single.method == "paper"
    assert len(found.only("fast").runs) == len(mixed()) and found.only("fast").iterations == 512
    assert found.only("paper").iterations == 5000


def test_another_method_joins_every_rule_of_steps() -> None:
    tight = made_run("star", 4, -2.0, steps={"rule": "tight"})
    found = studies([made_run("star", 4, -1.0), tight, fast_run("star", 4, -9.0), made_run(None, 1, -3.0)])
    assert [(each.methods, len(each.runs)) for each in found] == [(["paper", "fast"], 3), (["paper", "fast"], 2)]
    assert found[0].title != found[1].title and "tight" in found[1].title


def test_other_weights_and_losses_stay_apart() -> None:
    weighted = fast_report("star", 4, -9.0)
    weighted["graph"]["weights"] = "optimal"
    other = fast_run("star", 4, -9.0, loss="logistic")
    assert len(studies([made_run("star", 4, -1.0), Run("w.h5", weighted), other])) == 3


def test_a_folder_of_the_other_method_alone() -> None:
    found = study_of([fast_run("star", 4, -9.0), fast_run(None, 1, -9.0)])
    assert found.methods == ["fast"] and method_table(found) is None
    assert bound_table(found).rows == [] and operation_table(found, Counter({})).rows == []
    assert next(figures(found)).panels[0].lines[0].label == "single agent, fast"


def test_results_without_a_method_are_the_papers() -> None:
    run = made_run("star", 4, -1.0)
    del run.report["method"]
    assert run.method == "paper" and study_of([run, fast_run("star", 4, -9.0)]).methods == ["paper", "fast"]


# --- what an iteration costs --------------------------------------------------------------------------------


def test_costs_are_those_that_the_run_states() -> None:
    network = build_network("rgg", 64, 2)
    paper, fast = made_run("rgg", 64, -1.0, seed=2), fast_run("rgg", 64, -9.0, seed=2)
    units = FAST_UNITS * normalized_cost(16384, 2048, 64, network.max_degree)
    assert OPERATIONS.width(fast) == pytest.approx(units)
    assert BYTES.width(fast) == messages(network, 16384, 8).total_bytes / 2 and ITERATIONS.width(fast) == 1.0
    assert BYTES.width(paper) == 2 * float(BYTES.width(fast) or 0.0)
    for name, link in PRESETS.items():
        spent = units * paper_cost(16384, 2048, 1, 0)
        expected = exchange_seconds(spent, 1.0, 2.0, network.max_degree, 16384, 8, link)
        assert SECONDS[name].width(fast) == pytest.approx(expected.total)
        # Agent 1 answers its neighbours: as many latencies as the paper's method has, but about half the bytes.
        assert expected.latency == 2.0 * link.latency
        assert expected.transfer == pytest.approx((network.max_degree + 1) * 16384 * 8 / link.bandwidth)


def test_looks_and_restarts_count_on_every_axis() -> None:
    """What they add to a run's totals is spread over its iterations."""
    plain, looking = fast_run("rgg", 64, -9.0, seed=2), fast_run("rgg", 64, -9.0, seed=2)
    for name in ("normalized_ops_total", "exchanges", "bytes_total"):
        looking.report["cost"][name] *= 1.125
    assert OPERATIONS.width(looking) == pytest.approx(1.125 * (OPERATIONS.width(plain) or 0.0))
    assert BYTES.width(looking) == pytest.approx(1.125 * (BYTES.width(plain) or 0.0))
    link, degree = PRESETS["internet"], looking.max_degree
    spent = (OPERATIONS.width(looking) or 0.0) * paper_cost(16384, 2048, 1, 0)
    expected = exchange_seconds(spent, 1.125, 2.125, degree, 16384, 8, link)
    assert SECONDS["internet"].width(looking) == pytest.approx(expected.total)


def test_a_method_that_states_no_cost_has_no_place_on_its_axes() -> None:
    report = fast_report("star", 4, -9.0)
    del report["cost"]
    run = Run("a.h5", report)
    assert BYTES.width(run) is None and all(axis.width(run) is None for axis in SECONDS.values())
    found = study_of([made_run("star", 4, -1.0), run])
    by_iterations, by_operations, *_ = figures(found)
    assert len(by_iterations.panels[0].lines) == 2 and len(by_operations.panels[0].lines) == 1
    table = method_table(found)
    assert table is not None and table.rows[0]["iterations_other"] and table.rows[0]["operations_other"] is None
    assert summary_table(found).rows[-1]["operations"] is None


# --- figures and tables -------------------------------------------------------------------------------------


def test_a_line_for_each_size_and_method() -> None:
    for figure in figures(study_of(both())):
        for panel in figure.panels:
            labels = [line.label for line in panel.lines if line.level is not None]
            assert labels == ["32 agents", "32 agents, fast", "64 agents", "64 agents, fast"]
            assert [line.dotted for line in panel.lines if line.level is not None] == [False, True] * 2
        root = ElementTree.fromstring(figure_svg(figure))
        dotted = [path for path in root.iter(f"{SVG}path") if "other" in path.attrib["class"].split()]
        in_panels = sum(line.dotted for panel in figure.panels for line in panel.lines)
        in_legend = sum(key.dotted for key in figure.legend)
        assert len(dotted) == in_panels + in_legend > 0
        assert "fast" in figure.caption or figure.name.startswith("seconds")
    assert figure_pdf(figure).startswith(b"%PDF")


def test_legends_of_long_names_do_not_overlap() -> None:
    figure = next(figures(study_of(both())))
    root = ElementTree.fromstring(figure_svg(figure))
    names = {key.label for key in figure.legend}
    entries = [text for text in root.findall(f"{SVG}text") if text.text in names]
    assert len(entries) == len(names)
    rows: dict[str, list[tuple[float, str]]] = {}
    for text in entries:
        rows.setdefault(text.attrib["y"], []).append((float(text.attrib["x"]), text.text or ""))
    for row in rows.values():
        for (x, label), (after, _) in zip(sorted(row), sorted(row)[1:], strict=False):
            assert x + 5.5 * len(label) < after - 26


def test_the_table_of_methods() -> None:
    table = method_table(study_of(both()))
    assert table is not None and len(table.rows) == 3 * len(mixed())
    rows = {(row["graph"], row["agents"], row["seed"], row["target"]): row for row in table.rows}
    complete = [rows["complete", 64, None, target] for target in TARGETS]
    # By the straight lines of the made-up runs: 10^(final log t / log T) is below the target from that t on.
    expected = [next(t for t in (2**k for k in range(10)) if END * np.log(t) / np.log(512) <= e) for e in (-4, -6, -8)]
    assert [row["iterations_other"] for row in complete] == expected
    first = complete[0]
    assert first["iterations_paper"] == 128 and first["iterations_ratio"] == expected[0] / 128  # its last iterate's
    assert first["bytes_ratio"] == pytest.approx(0.5 * expected[0] / 128)
    assert first["operations_ratio"] == pytest.approx(FAST_UNITS * expected[0] / 128)
    complete64 = [run for run in both() if run.graph == "complete" and run.agents == 64 and run.seed is None]
    paper, fast = sorted(complete64, key=lambda run: run.method, reverse=True)
    for name, axis in SECONDS.items():
        share = expected[0] * (axis.width(fast) or 0.0) / (128 * (axis.width(paper) or 0.0))
        assert first[f"seconds_{name}_ratio"] == pytest.approx(share)
    assert complete[2]["iterations_paper"] is None and complete[2]["iterations_ratio"] is None
    star = rows["star", 64, None, 1e-4]
    assert star["iterations_paper"] is None and star["bytes_ratio"] is None and star["iterations_other"]
    single = rows["single", 1, None, 1e-4]
    assert single["bytes_other"] == 0.0 and single["bytes_ratio"] is None
    assert "" in table.as_csv().splitlines()[-1].split(",")


def test_the_table_at_equal_cost() -> None:
    """Each axis ends where the first of two runs ends on it, and the other is read there."""
    paper, fast = made_run("rgg", 64, -3.0, seed=2), fast_run("rgg", 64, END, seed=2)
    table = equal_table(study_of([paper, fast]))
    assert table is not None and len(table.rows) == 3 + len(SECONDS)
    axes = {axis.label: axis for axis in (ITERATIONS, OPERATIONS, BYTES, *SECONDS.values())}
    for row in table.rows:
        width = {run.method: axes[str(row["axis"])].width(run) or 0.0 for run in (paper, fast)}
        spent = min(5000 * width["paper"], 512 * width["fast"])
        assert row["spent"] == pytest.approx(spent)
        for run, name in ((paper, "paper"), (fast, "other")):
            records = [
                record for record in run.report["trace"] if record["iteration"] * width[run.method] <= spent * 1.001
            ]
            assert row[name] == min(records[-1]["relative_error_average"], records[-1]["relative_error_last"])
    assert equal_table(study_of([paper])) is None


def test_tables_tell_the_methods_apart() -> None:
    found = study_of(both())
    summary = summary_table(found)
    rows = {(row["graph"], row["agents"], row["method"]): row for row in summary.rows}
    assert rows["star", 64, "paper"]["iteration"] == 5000 and rows["star", 64, "fast"]["iteration"] == 512
    assert rows["star", 64, "fast"]["final"] == pytest.approx(10**END)
    assert rows["star", 64, "paper"]["final"] == pytest.approx(10 ** PAPER_ERRORS["star"][64])
    assert "method" in summary.as_csv().splitlines()[0].split(",")
    assert {row["method"] for row in best_table(found).rows} == {"paper", "fast"}
    assert len(run_table(found).rows) == len(found.runs)
    assert len(bound_table(found).rows) == len(network_table(found).rows) + 1 == len(mixed())
    assert len(operation_table(found, Counter({})).rows) == len(mixed())
    alone = summary_table(study_of(mixed())).as_csv().splitlines()[0].split(",")
    assert "method" not in alone and "iteration" not in alone  # one method: the tables are what they were


def test_the_papers_claims_are_judged_on_the_papers_method() -> None:
    alone, together = study_of(mixed()), study_of(both())
    assert check_claims(together.only("paper")) == check_claims(alone)


def test_the_report_of_both(tmp_path: Path) -> None:
    write_folder(tmp_path / "runs", both())
    written = write_report(str(tmp_path / "runs"), str(tmp_path / "page.html"))
    assert {"methods.csv", "methods.json"} <= set(written.files)
    with open(tmp_path / "page_files" / "methods.csv", encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == 3 * len(mixed())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The paper&#x27;s experiment: 16384 samples" in page  # by the paper's own runs, not by the other's end
    assert "Methods beside each other" in page and "64 agents, fast" in page and "paper, fast" in page
    assert 'class="line s0 other"' in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_real_runs_edited_into_another_method(tmp_path: Path) -> None:
    """The JSON of the solver itself, with another method's name, cost and trace put in."""
    from report_tools import write_result

    write_problem(tmp_path / "data.h5", n=40, d=8)
    line = ("sweep", tmp_path / "data.h5", "--agents 4 --graph ring,star --iterations 300 --reference --weights scaled")
    assert fdglm(*line, "--out", tmp_path / "runs").code == 0
    for k, run in enumerate(read_folder(tmp_path / "runs").runs):
        report: dict[str, Any] = {**run.report, "method": "fast", "iterations": run.report["trace"][30]["iteration"]}
        report["trace"] = run.report["trace"][:31]
        iterations, cost = report["iterations"], run.report["cost"]
        spent = {"exchanges": iterations, "bytes_total": iterations * cost["bytes_per_iteration"] // 2}
        spent["normalized_ops_total"] = iterations * cost["normalized_ops_per_iteration"]
        report["cost"] = {**cost, **spent, "exchanges_per_iteration": 1}
        write_result(tmp_path / "runs" / f"fast{k}.h5", report)
    found = study_of(read_folder(tmp_path / "runs").runs)
    assert found.methods == ["paper", "fast"] and len(found.runs) == 4
    table = method_table(found)
    assert table is not None
    reached = [row for row in table.rows if row["bytes_other"] is not None]
    assert all(row["bytes_ratio"] == pytest.approx(0.5 * float(row["iterations_ratio"] or 0)) for row in reached)
    write_report(str(tmp_path / "runs"), str(tmp_path / "page.html"))

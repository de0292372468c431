"""fdglm bench: how near an iteration comes to the memory limit, and how far it is ahead of NumPy."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fdglm_bench.cases import Axes


@click.command("bench")
@click.option("--quick", is_flag=True, help="Small sizes, few rounds: does it work, roughly how fast.")
@click.option(
    "--cases",
    "axes",
    default="",
    metavar="FILTER",
    help="Only these, for example 'm=16|64,graph=rgg,dtype=f64,threads=2'.",
)
@click.option("--samples", type=click.IntRange(min=1), help="n.  [default: 16384; quick: 2048]")
@click.option("--features", type=click.IntRange(min=1), help="d.  [default: 2048; quick: 256]")
@click.option("--repeat", type=click.IntRange(min=1), help="Rounds to take the best of.  [default: 7; quick: 3]")
@click.option(
    "--schedule",
    type=click.Choice(["auto", "agents", "tiles"]),
    default="auto",
    show_default=True,
    help="What the solver's threads share.",
)
@click.option("--scaling", is_flag=True, help="Measure how the time grows with n and with d instead.")
@click.option("--overhead", is_flag=True, help="Measure what checkpoints and finite checks cost instead.")
@click.option(
    "--ranks", metavar="R,R,...", help="Ranks of MPI against threads instead, on one case (64 agents on rgg, f64)."
)
@click.option("--redraw", type=click.Path(), metavar="FILE.json", help="Measure nothing: show an earlier --out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--out", type=click.Path(), metavar="FILE.json", help="Save the report, after every case.")
@click.option("--figures", type=click.Path(), metavar="DIR", help="Draw the figures, as SVG and PNG.")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
def command(**given: Any) -> None:
    """Time an iteration against the memory limit and against NumPy.

    In one process, interleaved, best of several rounds: the bandwidth at which this machine reads X, the limit that
    follows for an iteration, this solver, and the same iteration written carefully in NumPy. Squared loss, no penalty.
    Without --cases: 1, 16, 64 and 256 agents; complete, star, er:0.1 (from 32 agents), er:0.5 (from 8), lattice and rgg
    (from 32); f64 and f32; one thread and all.
    """
    from fdglm_bench.cases import check_axes, parse_axes

    axes = parse_axes(given["axes"])
    if given["ranks"]:
        _bench_ranks(axes, given)
        return
    _check_kind(given)
    if given["redraw"]:
        report = _earlier(given)
    else:
        n, d = _size(given)
        check_axes(axes, d, given["scaling"])
        report = _measure(axes, n, d, given)
    if given["as_json"]:
        click.echo(json.dumps(report, allow_nan=False))
    else:
        from fdglm_bench.table import print_report

        print_report(report)
    if given["figures"]:
        _draw(report, given)


def _check_kind(given: dict[str, Any]) -> None:
    from fdglm_fast.errors import UsageError

    if given["overhead"] and (given["scaling"] or given["figures"]):
        raise UsageError("--overhead goes neither with --scaling nor with --figures.")


def _bench_ranks(axes: Axes, given: dict[str, Any]) -> None:
    """Ranks against threads, with a model of many more ranks."""
    from fdglm_bench.cases import check_axes
    from fdglm_bench.ranks import measure_ranks, parse_ranks, print_ranks, the_case
    from fdglm_bench.run import saver
    from fdglm_cli.terminal import say
    from fdglm_fast.errors import UsageError
    from fdglm_fast.files import check_output

    if any(given[name] for name in ("scaling", "overhead", "redraw", "figures")) or given["schedule"] != "auto":
        raise UsageError(
            "--ranks goes with --cases, --samples, --features, --repeat, --quick, --json, --out and --force only."
        )
    n, d = _size(given)
    check_axes(axes, d, scaling=False)
    case = the_case(axes, d)
    ranks = parse_ranks(given["ranks"], case["agents"])
    if given["out"]:
        check_output(given["out"], given["force"])
    count, blocks = (20, 2) if given["quick"] else (40, 3)
    asked = {"samples": n, "features": d, **case, "iterations": count, "blocks": blocks}
    report = {"command": shlex.join(["fdglm", *sys.argv[1:]])}
    report |= measure_ranks(asked, ranks, given["repeat"] or (1 if given["quick"] else 3), say)
    saver(given["out"], given["force"])(report)
    if given["as_json"]:
        click.echo(json.dumps(report, allow_nan=False))
    else:
        print_ranks(report)


def _size(given: dict[str, Any]) -> tuple[int, int]:
    from fdglm_bench import cases

    n, d = (cases.QUICK_SAMPLES, cases.QUICK_FEATURES) if given["quick"] else (cases.SAMPLES, cases.FEATURES)
    return given["samples"] or n, given["features"] or d


def _measure(axes: Axes, n: int, d: int, given: dict[str, Any]) -> dict[str, Any]:
    from fdglm_fast.files import check_output

    if given["out"]:
        check_output(given["out"], given["force"])
    from fdglm_bench.cases import all_threads, grid, overhead_cases
    from fdglm_bench.measure import Effort
    from fdglm_bench.run import Plan, run_cases, run_overhead, run_scaling, saver
    from fdglm_bench.scaling import scaling_points
    from fdglm_cli.terminal import say

    effort = Effort(given["repeat"] or 3, 0.02, 1) if given["quick"] else Effort(given["repeat"] or 7)
    plan = Plan(n, d, given["schedule"], effort, shlex.join(["fdglm", *sys.argv[1:]]))
    save, threads = saver(given["out"], given["force"]), all_threads(axes)
    if given["overhead"]:
        return run_overhead(plan, overhead_cases(axes, d, threads), save, say)
    if given["scaling"]:
        _check_figures(given, scaling=True, threads=[])
        return run_scaling(plan, scaling_points(n, d), max(threads), save, say)
    cases = grid(axes, d, threads, given["quick"])
    _check_figures(given, scaling=False, threads=list(threads))
    return run_cases(plan, cases, save, say)


def _check_figures(given: dict[str, Any], scaling: bool, threads: list[int]) -> None:
    if given["figures"]:
        from fdglm_bench.figures import check_folder, figure_names

        check_folder(given["figures"], figure_names(scaling, threads), given["force"])


def _draw(report: dict[str, Any], given: dict[str, Any]) -> None:
    from fdglm_bench.figures import save_figures
    from fdglm_cli.terminal import say
    from fdglm_fast.files import printable

    for path in save_figures(report, given["figures"], given["force"]):
        say(f"drew {printable(path)}")


def _earlier(given: dict[str, Any]) -> dict[str, Any]:
    """The report of an earlier run."""
    from fdglm_bench.run import load_report
    from fdglm_fast.errors import UsageError

    if given["axes"] or given["quick"] or given["scaling"] or given["overhead"] or given["out"]:
        raise UsageError("--redraw measures nothing: of the other options it takes --json, --figures and --force.")
    report = load_report(given["redraw"])
    if given["figures"] and "overhead" in report:
        raise UsageError("there are no figures of --overhead.")
    _check_figures(given, "scaling" in report, sorted({row["threads"] for row in report.get("cases", [])}))
    return report

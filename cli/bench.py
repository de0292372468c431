"""fdglm bench: how near an iteration comes to the memory limit, and how far it is ahead of NumPy."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fdglm_bench.cases import Axes
    from fdglm_bench.run import Plan


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
@click.option("--schedule", default="auto", show_default=True, help="Threads over: auto, agents or tiles.")
@click.option("--scaling", is_flag=True, help="Measure how the time grows with n and with d instead.")
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
    from fdglm_bench.cases import parse_axes

    axes = parse_axes(given["axes"])
    report = _load(given["redraw"]) if given["redraw"] else _measure(axes, given)
    if given["as_json"]:
        click.echo(json.dumps(report, allow_nan=False))
    else:
        from fdglm_bench.table import print_report

        print_report(report)
    if given["figures"]:
        _draw(report, given["figures"], given["force"])


def _measure(axes: Axes, given: dict[str, Any]) -> dict[str, Any]:
    from fdglm_cli.terminal import say
    from fdglm_fast.errors import unknown_name
    from fdglm_fast.files import check_output

    plan = _plan(given)
    if plan.schedule not in ("auto", "agents", "tiles"):
        raise unknown_name("schedule", plan.schedule, ("auto", "agents", "tiles"))
    if given["out"]:
        check_output(given["out"], given["force"])
    from fdglm_bench.run import run_cases, run_scaling, saver

    save = saver(given["out"], given["force"])
    most, threads = _threads(axes)
    if given["scaling"]:
        from fdglm_bench.scaling import scaling_points

        _check_figures(given, True, [])
        return run_scaling(plan, scaling_points(plan.samples, plan.features), max(threads), save, say)
    from fdglm_bench.cases import grid

    cases = grid(axes, plan.features, most, given["quick"])
    _check_figures(given, False, sorted({case.threads for case in cases}))
    return run_cases(plan, cases, save, say)

"""fdglm sweep: a grid of solves in one command."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from fdglm_cli.options import data_options, method_options, model_options, parse_tags, step_options

if TYPE_CHECKING:
    from fdglm_fast.sweep import Plan, Preset, Run


@click.command("sweep")
@click.argument("data", metavar="FILE.h5[::/GROUP]")
@click.option("--agents", metavar="M,M,...", help="Numbers of agents.  [with --paper: 1,2,4,...,512]")
@click.option("--graph", "graphs", metavar="SPEC,SPEC,...", help="Networks, as for solve.  [default: complete]")
@click.option("--seeds", metavar="S,S,...", help="Seeds of random networks.  [default: 0; with --paper: 0,1,2]")
@click.option("--weights", default="unit", show_default=True, metavar="RULE", help="Edge weights, as for solve.")
@click.option("--paper", is_flag=True, help="The paper's experiments: its sizes, networks and rules, with --reference.")
@click.option("--out", "folder", required=True, type=click.Path(), metavar="FOLDER", help="A result for each run.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes at a time.")
@model_options
@data_options
@step_options
@method_options
@click.option("--iterations", type=click.IntRange(min=1), help="At most so many a run.  [default: 5000]")
@click.option("--tol", type=float, help="End a run at this residual; exit code 4 when one does not reach it.")
@click.option("--time-limit", type=float, metavar="SECONDS", help="End each run after so many seconds.")
@click.option("--record", metavar="RULE", help="Trace at log:K or every:K.  [default: log:60; with --paper: log:120]")
@click.option("--reference", is_flag=True, help="Solve centrally too, once, and report relative errors (cached).")
@click.option("--compress", default="auto", show_default=True, help="auto (if it halves the rows), on or off.")
@click.option("--schedule", default="auto", show_default=True, help="Threads over: auto, agents or tiles.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of a run.  [default: all cores / jobs]")
@click.option("--force", is_flag=True, help="Replace results of other options or data that are in the way.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Stored with each result; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(**given: Any) -> None:
    """Solve one problem on a grid of networks.

    Data, norms and the reference are found once. Each result is saved as its run ends: give the same command again to
    go on with a sweep that was cut off. A run that fails is told at the end and does not stop the others.
    """
    from fdglm_cli.sweep_bars import SweepBars
    from fdglm_cli.terminal import stop_signals

    plan = _plan(given)
    began = time.perf_counter()
    with stop_signals() as stop, SweepBars(not given["quiet"], plan.options.iterations) as bars:
        from fdglm_fast.sweep_run import SweepWatch, sweep

        told = {name: getattr(bars, name) for name in ("say", "loading", "surveyed", "started", "advanced", "ended")}
        runs = sweep(plan, SweepWatch(stop=stop, **told), processes=given["jobs"], force=given["force"])
    seconds = time.perf_counter() - began
    if given["as_json"]:
        click.echo(json.dumps(_as_json(plan, runs, seconds), allow_nan=False))
    elif not given["quiet"]:
        _print(plan, runs, seconds)
    raise click.exceptions.Exit(_exit_code(runs))


def _plan(given: dict[str, Any]) -> Plan:
    from fdglm_cli.command_line import command_line
    from fdglm_fast.errors import UsageError
    from fdglm_fast.graph_spec import parse_spec
    from fdglm_fast.job import Job
    from fdglm_fast.losses import parse_loss
    from fdglm_fast.options import Given, Options
    from fdglm_fast.penalties import parse_penalty
    from fdglm_fast.sweep import PAPER, PLAIN, Plan, grid

    preset = PAPER if given["paper"] else PLAIN
    agents = _numbers("--agents", given["agents"], preset.agents)
    if not agents:
        raise UsageError("--agents is missing: the numbers of agents, as in 1,16,64.")
    graphs = tuple(given["graphs"].split(",")) if given["graphs"] else preset.graphs
    for graph in graphs:
        parse_spec(graph)
    cells = grid(agents, graphs, _numbers("--seeds", given["seeds"], preset.seeds), preset.least)
    taken = {name: given[name] for name in ("data", "weights", "x", "y", "dtype", "compress", "allow_filters")}
    loss, penalty = parse_loss(given["loss"]), parse_penalty(given["penalty"], given["reg"])
    job = Job(agents=1, loss=loss, penalty=penalty, reference=given["reference"] or preset.reference, **taken)
    rule = {name: given[name] for name in ("sigma", "tau", "chi", "D", "delta", "R")}
    options = Options(
        iterations=given["iterations"] or preset.iterations,
        record=given["record"] or preset.record,
        steps=Given(rule=given["steps"], force=given["force_steps"], **rule),
        **{name: given[name] for name in ("method", "gossip", "primal_weight", "tol", "time_limit")},
        **{name: given[name] for name in ("schedule", "threads")},
    )
    options.check()
    cells = _within(cells, given, preset)
    return Plan(job, options, tuple(cells), given["folder"], command_line(), parse_tags(given["tags"]))


def _within(cells: list[Any], given: dict[str, Any], preset: Preset) -> list[Any]:
    """The paper's sizes are those that the features allow; sizes that were asked for fail by themselves."""
    if given["agents"] or not given["paper"]:
        return cells
    from fdglm_fast.hdf5 import open_source

    with open_source(given["data"], given["x"], given["y"], given["allow_filters"]) as source:
        return [cell for cell in cells if cell.agents <= source.d]


def _numbers(name: str, text: str | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    from fdglm_fast.errors import UsageError
    from fdglm_fast.files import printable

    if text is None:
        return otherwise
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        raise UsageError(f"{name} takes whole numbers with commas between them, not '{printable(text, 60)}'.")
    return tuple(int(word) for word in words)


def _exit_code(runs: list[Run]) -> int:
    """0 when all is done, 130 when the sweep was cut off, else the largest code of a run."""
    if any(run.status == "open" for run in runs):
        return 130
    return max(run.code for run in runs)


def _counts(runs: list[Run]) -> dict[str, int]:
    return {name: sum(run.status == name for run in runs) for name in ("done", "kept", "failed", "open")}


def _row(run: Run) -> dict[str, Any]:
    report = run.report or {}
    cell = {"agents": run.cell.agents, "graph": run.cell.graph, "seed": run.cell.seed}
    return {
        **cell,
        "status": run.status,
        "iterations": report.get("iterations"),
        "stop_reason": report.get("stop_reason"),
        "relative_error": report.get("relative_error", {}).get("average"),
        "residual": report.get("residual", {}).get("average"),
        "seconds": report.get("time", {}).get("solve"),
        "file": run.path if run.status in ("done", "kept") else None,
        "error": run.why,
    }


def _as_json(plan: Plan, runs: list[Run], seconds: float) -> dict[str, Any]:
    return {
        "data": plan.job.data,
        "out": plan.folder,
        "command": plan.command,
        "counts": _counts(runs),
        "seconds": seconds,
        "runs": [_row(run) for run in runs],
    }


def _print(plan: Plan, runs: list[Run], seconds: float) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fdglm_fast.files import printable

    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("m", "network", "seed", "status", "iterations", "relative error", "residual", "seconds"):
        table.add_column(name, justify="left" if name in ("network", "status") else "right")
    for run in runs:
        row = _row(run)
        numbers = [_number(row[name]) for name in ("iterations", "relative_error", "residual", "seconds")]
        words = [str(row["agents"]), printable(row["graph"] or "-", 40), _number(row["seed"]), run.status, *numbers]
        table.add_row(*(Text(word) for word in words))
    console = Console(highlight=False)
    console.print(table)
    counts = _counts(runs)
    words = [f"{counts['done']} runs done, {counts['kept']} kept, {counts['failed']} failed"]
    if counts["open"]:
        words.append(f"{counts['open']} left: give the command again to go on")
    console.print(Text(f"{', '.join(words)}; {seconds:.1f} s; results in {printable(plan.folder)}"))
    for run in runs:
        if run.status == "failed":
            console.print(Text(f"failed: {run.cell.label}: {run.why}"))


def _number(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

"""fdglm solve: the main job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from fdglm_cli.options import data_options, model_options, network_options, step_options

if TYPE_CHECKING:
    from fdglm_fast.job import Job, Outcome
    from fdglm_fast.solve import Options


@click.command("solve")
@click.argument("data", metavar="FILE.h5[::/GROUP]")
@network_options
@model_options
@data_options
@step_options
@click.option("--iterations", type=click.IntRange(min=1), default=5000, show_default=True, help="At most so many.")
@click.option("--tol", type=float, help="Stop at this optimality residual; exit code 4 when it is not reached.")
@click.option("--time-limit", type=float, metavar="SECONDS", help="Stop after so many seconds.")
@click.option("--record", default="log:60", show_default=True, metavar="RULE", help="Trace at log:K or every:K.")
@click.option("--reference", is_flag=True, help="Solve centrally too, and report relative errors (cached).")
@click.option("--compress", default="auto", show_default=True, help="auto, on or off (squared loss: d + 1 rows).")
@click.option("--schedule", default="auto", show_default=True, help="Threads over: auto, agents or tiles.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads.  [default: all cores]")
@click.option("--out", type=click.Path(), metavar="RESULT.h5", help="Write coefficients, trace and options.")
@click.option("--trace", type=click.Path(), metavar="FILE.csv", help="Write the trace.")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Stored with the result; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(**given: Any) -> None:
    """Fit a model whose features are split among the agents of a network.

    Each agent holds some columns of X, only the first holds y, and neighbours exchange dual vectors. The answer is the
    average of the iterates; the last iterate is reported too.
    """
    from fdglm_cli.summary import print_summary
    from fdglm_cli.terminal import Bars, stop_signals
    from fdglm_fast.files import check_output

    job, tags = _job(given), _tags(given["tags"])
    outputs = [given[name] for name in ("out", "trace") if given[name]]
    for path in outputs:
        check_output(path, given["force"])
    quiet = given["quiet"]
    with stop_signals() as interrupted, Bars(not quiet, given["iterations"]) as bars:
        outcome = _run(job, given, bars, interrupted)
    from fdglm_fast.result import as_json

    report = as_json(outcome, tags)
    _write(given, outcome, report)
    if given["as_json"]:
        click.echo(json.dumps(report, allow_nan=False))
    elif not quiet:
        print_summary(report)
    _leave(outcome, given["tol"] is not None)


def _job(given: dict[str, Any]) -> Job:
    from fdglm_fast.graph_spec import parse_spec
    from fdglm_fast.job import Job
    from fdglm_fast.losses import parse_loss
    from fdglm_fast.penalties import parse_penalty

    if given["agents"] > 1:
        parse_spec(given["graph"])
    names = (
        "data",
        "agents",
        "graph",
        "weights",
        "seed",
        "x",
        "y",
        "dtype",
        "reference",
        "compress",
        "allow_filters",
    )
    chosen = {name: given[name] for name in names}
    return Job(loss=parse_loss(given["loss"]), penalty=parse_penalty(given["penalty"], given["reg"]), **chosen)


def _run(job: Job, given: dict[str, Any], bars: Any, interrupted: Any) -> Outcome:
    from fdglm_fast.job import Watch, check_file, run

    check_file(job)  # before the kernels' compiler is imported
    options = _options(given, bars, interrupted)
    return run(job, options, Watch(say=(lambda line: None) if given["quiet"] else bars.say, loading=bars.loading))


def _options(given: dict[str, Any], bars: Any, interrupted: Any) -> Options:
    from fdglm_fast.solve import Options
    from fdglm_fast.steps import Given

    rule = {name: given[name] for name in ("sigma", "tau", "chi", "D", "delta", "R")}
    return Options(
        iterations=given["iterations"],
        tol=given["tol"],
        time_limit=given["time_limit"],
        record=given["record"],
        steps=Given(rule=given["steps"], force=given["force_steps"], **rule),
        schedule=given["schedule"],
        threads=given["threads"],
        progress=bars.iterating if bars.active else None,
        interrupted=interrupted,
    )


def _tags(pairs: tuple[str, ...]) -> dict[str, str]:
    from fdglm_fast.errors import UsageError

    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--tag takes KEY=VALUE, not '{pair}'.")
    return dict(pair.split("=", 1) for pair in pairs)


def _write(given: dict[str, Any], outcome: Outcome, report: dict[str, Any]) -> None:
    from fdglm_fast.files import atomic_text
    from fdglm_fast.result import save_result
    from fdglm_fast.trace import write_csv

    if given["out"]:
        save_result(given["out"], outcome, report, given["force"])
    if given["trace"]:
        with atomic_text(given["trace"], given["force"]) as stream:
            write_csv(outcome.result.trace, stream)


def _leave(outcome: Outcome, tolerance_asked: bool) -> None:
    from fdglm_cli.terminal import say
    from fdglm_fast.stopping import StopReason, exit_code

    code = exit_code(outcome.result.stop_reason, tolerance_asked)
    if outcome.result.stop_reason is StopReason.NOT_FINITE:
        say(
            f"error: the iterates are not finite any more; the state after iteration {outcome.result.iterations} is "
            "reported. Take smaller steps (--steps theorem), or scale the columns."
        )
    elif code == 4:
        say("error: stopped before the tolerance was reached.")
    raise click.exceptions.Exit(code)

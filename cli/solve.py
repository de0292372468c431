"""fdglm solve: the main job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from fdglm_cli.command_line import command_line
from fdglm_cli.options import (
    check_outputs,
    data_options,
    method_options,
    model_options,
    network_options,
    parse_tags,
    step_options,
    tolerance_asked,
)
from fdglm_cli.skip import skip_existing

if TYPE_CHECKING:
    from fdglm_fast.job import Job, Outcome
    from fdglm_fast.options import Options


@click.command("solve")
@click.argument("data", metavar="FILE.h5[::/GROUP]", required=False)
@network_options
@model_options
@data_options
@step_options
@method_options
@click.option("--iterations", type=click.IntRange(min=1), default=5000, show_default=True, help="At most so many.")
@click.option("--tol", type=float, help="Stop at this optimality residual, or leave with code 4.  [default: fast 1e-6]")
@click.option("--time-limit", type=float, metavar="SECONDS", help="Stop after so many seconds.")
@click.option("--record", default="log:60", show_default=True, metavar="RULE", help="Trace at log:K or every:K.")
@click.option("--reference", is_flag=True, help="Solve centrally too, and report relative errors (cached).")
@click.option("--compress", default="auto", show_default=True, help="auto, on or off (squared loss: d + 1 rows).")
@click.option("--schedule", default="auto", show_default=True, help="Threads over: auto, agents or tiles.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads.  [default: all cores]")
@click.option(
    "--engine",
    type=click.Choice(["threads", "mpi"]),
    default="threads",
    show_default=True,
    help="All agents in this process, or on the ranks of MPI.",
)
@click.option("--ranks", type=click.IntRange(min=1), help="Start so many ranks with mpiexec, with --engine mpi.")
@click.option("--local-data", metavar="PATTERN", help="With --engine mpi: a file an agent, 'agent-{j}.h5', j = 1..m.")
@click.option("--checkpoint", type=click.Path(), metavar="FILE", help="Keep the whole state in FILE, to resume from.")
@click.option("--checkpoint-every", default="60s", show_default=True, metavar="TIME", help="Seconds, or 5m, 2h.")
@click.option("--resume", type=click.Path(), metavar="FILE", help="Go on from a checkpoint, and keep it up to date.")
@click.option("--out", type=click.Path(), metavar="RESULT.h5", help="Write coefficients, trace and options.")
@click.option("--trace", type=click.Path(), metavar="FILE.csv", help="Write the trace.")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@click.option("--skip-existing", is_flag=True, help="Do nothing where --out holds this very result, finished.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Stored with the result; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(**given: Any) -> None:
    """Fit a model whose features are split among the agents of a network.

    Each agent holds some columns of X, only the first holds y, and neighbours exchange dual vectors. The answer is the
    average of the iterates; the last iterate is reported too. --method fast runs on the same network, stops at a
    tolerance, and needs a fraction of the iterations and messages; it has a last iterate only.
    """
    from fdglm_cli.ranks import check_engine, solve_on_ranks
    from fdglm_cli.summary import print_summary
    from fdglm_cli.terminal import Bars, stop_signals

    check_engine(given)
    job, tags = _job(given), parse_tags(given["tags"])
    if given["engine"] == "mpi":
        solve_on_ranks(job, make_options(given), given, tags)
        return
    if given["skip_existing"]:
        given["force"] |= skip_existing(job, make_options(given), given)
    check_all_outputs(given)
    quiet = given["quiet"]
    with stop_signals() as interrupted, Bars(not quiet, given["iterations"]) as bars:
        outcome = _run(job, given, bars, interrupted)
    report = make_report(given, outcome, tags)
    try:
        write_outputs(given, outcome, report)
    finally:  # a disk that is full by now is no reason to lose the numbers
        if given["as_json"]:
            click.echo(json.dumps(report, allow_nan=False))
        elif not quiet:
            print_summary(report)
    leave(outcome, tolerance_asked(given))


def check_all_outputs(given: dict[str, Any]) -> None:
    """Refuse outputs that cannot be written, before any work."""
    from fdglm_fast.mpi.layout_names import agent_file

    out = [given["out"]] if given["out"] else []
    if out and given["local_data"]:
        out = [agent_file(given["out"], j) for j in range(1, given["agents"] + 1)]
    outputs = out + ([given["trace"]] if given["trace"] else [])
    check_outputs(outputs, _inputs(given), given["force"])
    _check_checkpoint(given, outputs)


def _check_checkpoint(given: dict[str, Any], outputs: list[str]) -> None:
    """A checkpoint that is there is gone on from, or replaced when asked to, but never lost by accident."""
    from fdglm_fast.errors import UsageError

    given["checkpoint"] = given["checkpoint"] or given["resume"]
    if not given["checkpoint"]:
        return
    replaced = given["force"] or given["checkpoint"] == given["resume"]
    try:
        check_outputs([given["checkpoint"]], _inputs(given) + outputs, replaced)
    except UsageError as error:
        hint = " (--resume goes on from it)" if "exists" in str(error) else ""
        raise UsageError(str(error).rstrip(".") + hint + ".") from error


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
    chosen = {name: given[name] for name in names} | {"data": given["data"] or given["local_data"]}
    return Job(loss=parse_loss(given["loss"]), penalty=parse_penalty(given["penalty"], given["reg"]), **chosen)


def make_report(given: dict[str, Any], outcome: Outcome, tags: dict[str, str]) -> dict[str, Any]:
    """The JSON of the run, with the options as they were given: all that is needed to do it again."""
    from fdglm_fast.result import as_json, clean

    printing = ("as_json", "quiet", "force", "skip_existing")
    options = {name: value for name, value in given.items() if name not in printing}
    return {**as_json(outcome, tags, command_line()), "options": clean(options)}


def _inputs(given: dict[str, Any]) -> list[str]:
    """The files that a solve reads."""
    from fdglm_fast.files import split_address

    if given["local_data"]:
        from fdglm_fast.mpi.layout_names import agent_file

        return [agent_file(given["local_data"], j) for j in range(1, given["agents"] + 1)]
    path = split_address(given["data"])[0]
    graph = given["graph"].removeprefix("file:")
    return [path, f"{path}.reference.h5"] + ([graph] if graph != given["graph"] else [])


def _run(job: Job, given: dict[str, Any], bars: Any, interrupted: Any) -> Outcome:
    from fdglm_fast.job import Watch, run

    options = make_options(given, bars, interrupted)
    watch = Watch(say=(lambda line: None) if given["quiet"] else bars.say, loading=bars.loading)
    return run(job, options, watch, hashed=bool(given["out"]))


def make_options(given: dict[str, Any], bars: Any = None, interrupted: Any = None) -> Options:
    from fdglm_fast.intervals import parse_interval
    from fdglm_fast.options import Given, Options

    rule = {name: given[name] for name in ("sigma", "tau", "chi", "D", "delta", "R")}
    return Options(
        method=given["method"],
        gossip=given["gossip"],
        primal_weight=given["primal_weight"],
        iterations=given["iterations"],
        tol=given["tol"],
        time_limit=given["time_limit"],
        record=given["record"],
        steps=Given(rule=given["steps"], force=given["force_steps"], **rule),
        schedule=given["schedule"],
        threads=given["threads"],
        checkpoint=given["checkpoint"],
        checkpoint_every=parse_interval(given["checkpoint_every"]),
        resume=given["resume"],
        progress=bars.iterating if bars and bars.active else None,
        interrupted=interrupted,
    )


def write_outputs(given: dict[str, Any], outcome: Outcome, report: dict[str, Any]) -> None:
    from fdglm_fast.files import atomic_text
    from fdglm_fast.result import save_result
    from fdglm_fast.trace import write_csv

    if given["out"]:
        save_result(given["out"], outcome, report, given["force"])
    if given["trace"]:
        with atomic_text(given["trace"], given["force"]) as stream:
            write_csv(outcome.result.trace, stream)


def leave(outcome: Outcome, tolerance_asked: bool, speaks: bool = True) -> None:
    from fdglm_cli.terminal import say
    from fdglm_fast.stopping import BREAKDOWNS, StopReason, exit_code

    code = exit_code(outcome.result.stop_reason, tolerance_asked)
    if not speaks:
        raise click.exceptions.Exit(code)
    if outcome.result.stop_reason in BREAKDOWNS:
        diverged = outcome.result.stop_reason is StopReason.DIVERGED
        say(
            f"error: the iterates {'grow without bound' if diverged else 'are not finite any more'}; the state after "
            f"iteration {outcome.result.iterations} is reported. Take smaller steps (--steps theorem), or scale the "
            "columns."
        )
    elif code == 4:
        say("error: stopped before the tolerance was reached.")
    if outcome.result.checkpoint_failure:
        say(f"error: the last checkpoint is missing: {outcome.result.checkpoint_failure}")
        code = code or 2
    raise click.exceptions.Exit(code)

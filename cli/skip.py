"""solve --skip-existing: a result that is there already is shown, not computed again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from fdglm_cli.options import tolerance_asked

if TYPE_CHECKING:
    from fdglm_fast.job import Job
    from fdglm_fast.options import Options


def skip_existing(job: Job, options: Options, given: dict[str, Any]) -> bool:
    """Show a finished result of this very run, and leave. Otherwise, whether what is there is the same, unfinished.

    UsageError where something else is in the way and --force is not given.
    """
    from fdglm_fast.errors import UsageError
    from fdglm_fast.existing import State, content_of, look, mark_of, refuse_other
    from fdglm_fast.job import check

    if not given["out"]:
        raise UsageError("--skip-existing needs --out: the result to look for.")
    if not os.path.lexists(given["out"]):
        return False
    check(job, options)
    there = look(given["out"], mark_of(job, options, content_of(job)))
    if there.state is State.OTHER and not given["force"]:
        raise refuse_other(given["out"])
    if there.state is State.DONE and there.run is not None:
        _show(there.run, given)
    return there.state is State.UNFINISHED


def _show(run: dict[str, Any], given: dict[str, Any]) -> None:
    """Print what a run would have printed, write the trace if it is missing, and leave with the same exit code."""
    from fdglm_cli.summary import print_summary
    from fdglm_cli.terminal import say
    from fdglm_fast.files import atomic_text, printable
    from fdglm_fast.stopping import StopReason, exit_code
    from fdglm_fast.trace import write_rows

    if given["trace"] and not os.path.lexists(given["trace"]):
        with atomic_text(given["trace"]) as stream:
            write_rows(run["trace"], stream)
    if given["as_json"]:
        click.echo(json.dumps(run, allow_nan=False))
    elif not given["quiet"]:
        print_summary(run)
    if not given["quiet"]:
        say(f"'{printable(given['out'])}' is there already; nothing was run")
    raise click.exceptions.Exit(exit_code(StopReason(run["stop_reason"]), tolerance_asked(given)))

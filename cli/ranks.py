"""solve --engine mpi: the same command on the ranks of MPI, started by mpiexec or, with --ranks, by itself."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from fdglm_cli.options import tolerance_asked

if TYPE_CHECKING:
    from fdglm_fast.job import Job
    from fdglm_fast.mpi.job import RankOutcome
    from fdglm_fast.options import Options


def check_engine(given: dict[str, Any]) -> None:
    """Options that belong to one engine only."""
    from fdglm_fast.errors import UsageError
    from fdglm_fast.mpi.layout_names import check_pattern

    on_ranks = given["engine"] == "mpi"
    if not on_ranks and (given["ranks"] or given["local_data"]):
        raise UsageError(f"--{'ranks' if given['ranks'] else 'local-data'} is for --engine mpi.")
    if on_ranks and given["skip_existing"]:
        raise UsageError("--skip-existing has to read all the data, and is for --engine threads.")
    if bool(given["data"]) == bool(given["local_data"]):
        raise UsageError("the data are either one FILE.h5 or, with --engine mpi, --local-data PATTERN.")
    if given["local_data"]:
        check_pattern("--local-data", given["local_data"])
        if given["out"]:
            check_pattern("--out", given["out"])


def solve_on_ranks(job: Job, options: Options, given: dict[str, Any], tags: dict[str, str]) -> None:
    """Run, report and leave; with --ranks, start mpiexec for it and leave with its exit code."""
    from fdglm_fast.errors import UsageError
    from fdglm_fast.mpi.checks import check_ranks
    from fdglm_fast.mpi.surroundings import rank_here, size_here

    check_ranks(job, options, given["local_data"], given["ranks"])
    if given["ranks"] and rank_here() is None:
        from fdglm_cli.terminal import say
        from fdglm_fast.mpi.launch import launch

        raise click.exceptions.Exit(launch(given["ranks"], _without_ranks(sys.argv[1:]), say))
    if given["ranks"] not in (None, size_here()):
        raise UsageError(f"--ranks {given['ranks']} inside a job of {size_here()} ranks: leave it to mpiexec.")
    from fdglm_cli.solve import leave
    from fdglm_fast.mpi.start import guarded, world

    comm = world(given["threads"])
    with guarded(comm):
        found = _on_ranks(comm, job, given, tags)
    leave(found.outcome, tolerance_asked(given), comm.rank == 0)


def _on_ranks(comm: Any, job: Job, given: dict[str, Any], tags: dict[str, str]) -> RankOutcome:
    from fdglm_cli.solve import check_all_outputs, make_options, make_report
    from fdglm_cli.terminal import Bars, stop_signals
    from fdglm_fast.job import Watch
    from fdglm_fast.mpi.job import run_ranks
    from fdglm_fast.mpi.team import together

    speaks = comm.rank == 0
    together(comm, lambda: check_all_outputs(given) if speaks else None)
    given["checkpoint"] = given["checkpoint"] or given["resume"]
    quiet = given["quiet"] or not speaks
    with stop_signals(grace=1.0) as interrupted, Bars(not quiet, given["iterations"]) as bars:
        watch = Watch(say=(lambda line: None) if quiet else bars.say, loading=bars.loading if speaks else None)
        found = run_ranks(job, make_options(given, bars, interrupted), comm, watch, given["local_data"])
    report = {**make_report(given, found.outcome, tags), "mpi": found.facts}
    report = comm.bcast(report, 0)
    try:
        together(comm, lambda: _write(given, found, report, speaks))
    finally:
        if speaks:
            _print(given, report)
    return found


def _write(given: dict[str, Any], found: RankOutcome, report: dict[str, Any], speaks: bool) -> None:
    """Rank 0 writes what is common; with a file an agent, each rank writes the results of its own agents."""
    from fdglm_cli.solve import write_outputs
    from fdglm_fast.mpi.layout_names import agent_file
    from fdglm_fast.result import save_result

    if given["local_data"] and given["out"]:
        for j, outcome in found.by_agent():
            save_result(agent_file(given["out"], j), outcome, report, given["force"])
    if speaks:
        write_outputs({**given, "out": None if given["local_data"] else given["out"]}, found.outcome, report)


def _print(given: dict[str, Any], report: dict[str, Any]) -> None:
    from fdglm_cli.summary import print_summary

    if given["as_json"]:
        click.echo(json.dumps(report, allow_nan=False))
    elif not given["quiet"]:
        print_summary(report)


def _without_ranks(arguments: list[str]) -> list[str]:
    """The command line without --ranks R: a rank does not start others."""
    kept, skip = [], False
    for word in arguments:
        if skip or word == "--ranks":
            skip = word == "--ranks" and not skip
            continue
        if not word.startswith("--ranks="):
            kept.append(word)
    return kept

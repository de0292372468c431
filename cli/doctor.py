"""fdglm doctor: what this installation is made of, and what of it does not work."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command("doctor")
@click.option("--no-bandwidth", is_flag=True, help="Do not measure the memory's read bandwidth, which takes seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def command(no_bandwidth: bool, as_json: bool) -> None:
    """Versions, threads and threading layer, read bandwidth, MPI library, cache of kernels: for a bug report.

    Exits with 1 where something is broken.
    """
    from fdglm_bench.bandwidth import read_bandwidth
    from fdglm_fast.doctor import examine

    report = examine()
    report["bandwidth"] = None if no_bandwidth else read_bandwidth()
    if as_json:
        click.echo(json.dumps(report, allow_nan=False))
    else:
        _print(report)
    raise click.exceptions.Exit(1 if report["faults"] else 0)


def _print(report: dict[str, Any]) -> None:
    from fdglm_fast.files import printable

    threads, mpi, cache = report["threads"], report["mpi"], report["cache"]
    packages = ", ".join(f"{name} {version}" for name, version in report["packages"].items() if version)
    rows = [
        ("fdglm", f"{report['version']}, Python {report['python']} ({report['executable']})"),
        ("system", report["system"]),
        ("packages", packages),
        ("threads", f"{threads['numba_threads']} on {threads['cores_usable']} cores, {threads['threading_layer']}"),
        *(("", f"{name}={value}") for name, value in threads["environment"].items()),
    ]
    if report["bandwidth"]:
        speeds = [f"{speed / 1e9:.1f} GB/s with {count}" for count, speed in report["bandwidth"].items()]
        rows.append(("bandwidth", ", ".join(speeds) + " threads, reading"))
    if mpi["library"]:
        kind = "persistent" if mpi["persistent_neighbourhood"] else "non-blocking"
        rows.append(("MPI", f"{mpi['library']}, standard {mpi['standard']}, {kind} neighbourhood collectives"))
    else:
        rows.append(("MPI", f"none: {mpi['why_not']}"))
    rows.append(("mpiexec", mpi["mpiexec"] or "none"))
    state = "writable" if cache["writable"] else f"NOT writable: {cache['why_not']}"
    rows.append(("cache", f"{cache['folder']}, {state}; ready: {', '.join(cache['ready']) or 'nothing yet'}"))
    for name, text in rows:
        click.echo(f"{name:<10} {printable(text, 2000)}")
    for sentence in report["faults"]:
        click.echo(f"fault      {printable(sentence, 2000)}")

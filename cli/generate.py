"""fdglm generate: write a synthetic problem."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@click.command("generate")
@click.argument("out", type=click.Path())
@click.option("--samples", type=click.IntRange(min=1), required=True, help="Rows of X, n.")
@click.option("--features", type=click.IntRange(min=1), required=True, help="Columns of X, d.")
@click.option("--loss", default="squared", show_default=True, help="The loss that the responses shall suit.")
@click.option("--noise", type=float, default=1.0, show_default=True, help="Noise level S: y = X theta + S e.")
@click.option("--sparsity", type=int, default=None, help="Number of nonzero coefficients.  [default: all]")
@click.option("--correlation", type=float, default=0.0, show_default=True, help="R: corr(i, j) = R^|i-j|.")
@click.option("--dtype", type=click.Choice(["f32", "f64"]), default="f64", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--split", metavar="PATTERN", help="Also write a file an agent, as 'agent-{j}.h5', with --agents.")
@click.option("--agents", type=click.IntRange(min=1), help="Number of agents, for --split.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    out: str,
    samples: int,
    features: int,
    loss: str,
    noise: float,
    sparsity: int | None,
    correlation: float,
    dtype: str,
    seed: int,
    split: str | None,
    agents: int | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a synthetic problem to OUT, an HDF5 file with X, y and theta_true.

    With the defaults everything is standard normal and y = X theta + e, as in the paper. Classification
    losses get labels -1 and 1, poisson gets counts. The file may be larger than memory.
    """
    from fdglm_fast.errors import UsageError
    from fdglm_fast.files import printable
    from fdglm_fast.generate import generate
    from fdglm_fast.memory import human_size

    if (split is None) != (agents is None):
        raise UsageError("--split and --agents go together.")
    options = {
        "loss": loss,
        "noise": noise,
        "sparsity": sparsity,
        "correlation": correlation,
        "dtype": dtype,
        "seed": seed,
    }
    began = time.perf_counter()
    with _progress(not quiet) as progress:
        generate(
            out,
            samples,
            features,
            loss=loss,
            noise=noise,
            sparsity=sparsity,
            correlation=correlation,
            dtype=dtype,
            seed=seed,
            force=force,
            progress=progress,
        )
    if split is not None and agents is not None:
        from fdglm_fast.split_files import split_file

        split_file(out, split, agents, force)
    seconds, size = time.perf_counter() - began, os.path.getsize(out)
    if as_json:
        report = {"path": out, "n": samples, "d": features, **options, "bytes": size, "seconds": seconds}
        click.echo(json.dumps(report))
    elif not quiet:
        shape = f"{samples} x {features} {dtype}, {loss} loss, seed {seed}"
        click.echo(f"{printable(out)}: {shape}, {human_size(size)} in {seconds:.1f} s")


@contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error, if that is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("generating")
        yield lambda done, total: bar.update(task, completed=done, total=total)

"""fdglm warmup: compile ahead of time."""

from __future__ import annotations

import click


@click.command("warmup")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(quiet: bool) -> None:
    """Compile the kernels for float32 and float64, both schedules, and the reference solver."""
    from fdglm_cli.terminal import say
    from fdglm_fast.kernels.compile import prepare

    seconds = 0.0
    for dtype in ("float64", "float32"):
        for schedule in ("tiles", "agents"):
            seconds += prepare(dtype, schedule, reference=True, notify=None if quiet else say)
    if not quiet:
        click.echo(f"kernels ready in {seconds:.1f} s")

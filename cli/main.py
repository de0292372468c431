"""The entry point: a group whose commands are imported only when they are called.

`fdglm --help`, `--version` and usage errors must answer at once, so nothing heavy is imported here: the help texts of
the commands are a table.
"""

from __future__ import annotations

import importlib
import sys

import click

from fdglm_fast import __version__
from fdglm_fast.errors import FdglmError

COMMANDS = {
    "generate": "Write a synthetic problem.",
    "info": "What a problem file holds, and what a solve of it would need.",
    "graph": "A network: degrees, spectrum, bounds, drawing.",
    "solve": "Fit a model whose features are split among the agents of a network.",
    "cost": "Operations, messages and modelled time of an iteration.",
    "sweep": "A grid of solves in one command; goes on where it was cut off.",
    "report": "Figures, tables and the paper's claims from a folder of results, as one page.",
    "predict": "Predictions of a result for the samples of a file.",
    "bench": "Time an iteration against the memory limit and NumPy.",
    "doctor": "Versions, threads, bandwidth, MPI and cache: what a bug report needs.",
    "warmup": "Compile the kernels now, so that later commands start at once.",
}


class LazyGroup(click.Group):
    """Loads `fdglm_cli.NAME` when NAME is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"fdglm_cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from fdglm_fast.errors import unknown_name

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(str(unknown_name("command", args[0], COMMANDS)), context)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fdglm")
def main() -> None:
    """Generalized linear models whose features are split among the agents of a network.

    Exit codes: 0 done; 1 a check failed; 2 wrong usage; 3 bad data or graph; 4 stopped before the tolerance asked for;
    5 numerical breakdown; 130 interrupted; 141 the reader of the output has gone.
    """


def run() -> None:
    """Run the command line; every error that has a sentence ends as that sentence and an exit code."""
    try:
        code = main.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        _show(error)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("fdglm: interrupted", err=True)
        code = 130
    except FdglmError as error:
        _complain(str(error))
        code = error.exit_code
    except SystemExit:
        # How click and rich leave when the reader of our output has gone: nobody is left to be told.
        code = 141
    except MemoryError:
        _complain("there is not enough memory.")
        code = 3
    sys.exit(code if isinstance(code, int) else 0)


def _show(error: click.ClickException) -> None:
    """click's errors look like ours; a command without arguments shows its help, as click has it."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()
        return
    where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fdglm"
    _complain(f"{error.format_message()} Try '{where} --help'.")


def _complain(sentence: str) -> None:
    """One line on standard error; whatever a name in it might do to a terminal is escaped.

    Of several ranks, which all come to the same error, the first says it.
    """
    from fdglm_fast.files import printable
    from fdglm_fast.mpi.surroundings import rank_here

    if rank_here():
        return

    click.echo(f"fdglm: error: {printable(sentence, 2000)}", err=True)


if __name__ == "__main__":
    run()

"""fdglm report: a page from a folder of results."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fdglm_fast.report.claims import Verdict
    from fdglm_fast.report.write import Written


@click.command("report")
@click.argument("runs", metavar="FOLDER")
@click.option("-o", "--out", default="report.html", show_default=True, metavar="PAGE.html", help="The page.")
@click.option("--force", is_flag=True, help="Replace the page and the files beside it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(runs: str, out: str, force: bool, as_json: bool, quiet: bool) -> None:
    """Figures and tables of the results in FOLDER, as one HTML file that needs no network.

    The figures as SVG and PDF and the tables as CSV and JSON go into a folder beside it, PAGE_files. Results of least
    squares on several networks are judged by the claims of the paper's section 4.
    """
    from fdglm_fast.errors import UsageError
    from fdglm_fast.files import printable

    if not out.lower().endswith((".html", ".htm")):
        raise UsageError(f"the page '{printable(out)}' must have a name that ends in '.html'.")
    from fdglm_fast.report.write import write_report

    written = write_report(runs, out, force)
    if as_json:
        click.echo(json.dumps(asdict(written), allow_nan=False))
    elif not quiet:
        _print(written)


def _print(written: Written) -> None:
    from fdglm_cli.terminal import say
    from fdglm_fast.files import printable

    for note in written.notes:
        say(note)
    if written.claims:
        _print_claims(written.claims)
    click.echo(
        f"{written.runs} runs: {printable(written.page)}, {len(written.files)} figures and tables in "
        f"{printable(written.folder)}/"
    )


def _print_claims(claims: list[Verdict]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False, title="The paper's claims", title_justify="left")
    for name, ratio in (("claim", 3), ("status", None), ("seeds", None), ("log10 errors", 5)):
        table.add_column(name, ratio=ratio, overflow="fold")
    colours = {"holds": "green", "does not hold": "red"}
    measured = [each for each in claims if each.status in colours]
    for each in measured:
        status = Text(each.status, style=colours.get(each.status, "dim"))
        table.add_row(Text(each.claim), status, Text(each.seeds or "-"), Text(each.figures or "-"))
    if measured:
        Console(highlight=False).print(table)
    if len(measured) < len(claims):
        click.echo(
            f"{len(claims) - len(measured)} of the paper's {len(claims)} claims are about runs that are not here."
        )

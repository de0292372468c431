"""fdglm info: what a problem file holds, and what a solve of it would need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from fdglm_cli.options import method_option

if TYPE_CHECKING:
    from fdglm_fast.hdf5 import Source
    from fdglm_fast.survey import Survey

_SHOWN = 8


@click.command("info")
@click.argument("address", metavar="FILE.h5[::/GROUP]")
@click.option("--agents", type=click.IntRange(min=1), help="M.  [default: of the partition, else 1]")
@method_option
@click.option("--x", "x", default="X", show_default=True, metavar="NAME", help="Dataset of the design.")
@click.option("--y", "y", metavar="NAME", help="Dataset of the response.  [default: y, where it is there]")
@click.option("--check/--no-check", default=True, show_default=True, help="Read all of X to check it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(address: str, agents: int | None, method: str, x: str, y: str | None, check: bool, as_json: bool) -> None:
    """Shape, type, storage and checks of a problem, and the memory a solve for M agents would need."""
    from fdglm_fast.errors import DataError
    from fdglm_fast.hdf5 import open_source
    from fdglm_fast.options import check_method
    from fdglm_fast.survey import survey

    check_method(method)
    with open_source(address, x, y or "y") as source:
        if y is not None:
            source.require_response()
        found = survey(source, agents, check, method)
        if as_json:
            click.echo(json.dumps(_report(source, found)))
        else:
            _print_table(source, found)
    if found.faults:
        raise DataError(" ".join(found.faults))


def _report(source: Source, found: Survey) -> dict[str, Any]:
    return {
        "data": {
            "path": source.path,
            "group": source.group,
            "n": source.n,
            "d": source.d,
            "dtype": source.dtype.name,
        },
        "storage": {
            "chunks": source.x_chunks,
            "filters": source.filters,
            "x_bytes": source.stored_bytes,
            "file_bytes": source.file_bytes,
        },
        "response": found.response,
        "checks": {
            "nonfinite": found.nonfinite,
            "constant_columns": found.constant_columns,
            "faults": found.faults,
        },
        "agents": found.agents,
        "partition": {
            "source": "dataset" if found.partition_given else "contiguous",
            "smallest_block": int(found.blocks.sizes.min()),
            "largest_block": int(found.blocks.sizes.max()),
        },
        "groups": found.groups,
        "feature_names": found.feature_names,
        "memory": {
            "needed": found.memory_needed,
            "available": found.memory_available,
            "fits": found.fits,
            "terms": found.memory_terms,
        },
    }


def _print_table(source: Source, found: Survey) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fdglm_fast.files import printable

    table = Table(show_header=False, box=None, pad_edge=False)
    # Text, not strings: a name in the file must not be read as markup.
    for name, value in _rows(source, found):
        table.add_row(Text(name, style="bold"), Text(printable(value, 2000)))
    Console().print(table)


def _rows(source: Source, found: Survey) -> list[tuple[str, str]]:
    from fdglm_fast.memory import human_size

    group = "" if source.group == "/" else f"::{source.group}"
    chunks = "contiguous" if source.x_chunks is None else f"chunks of {_shape(source.x_chunks)}"
    filters = ", ".join(source.filters) or "no filters"
    sizes, terms = found.blocks.sizes, found.memory_terms
    width = f"{sizes.max()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    given = "dataset 'partition'" if found.partition_given else "contiguous (default)"
    verdict = "fits" if found.fits else "does not fit"
    return [
        ("file", f"{source.path}{group} ({human_size(source.file_bytes)})"),
        ("X", f"{source.n} samples x {source.d} features, {source.dtype.name}"),
        ("storage", f"{chunks}, {filters}, {human_size(source.stored_bytes)}"),
        ("y", "none" if found.response is None else found.response),
        ("finite", _finite(found)),
        ("constant columns", _constant(found)),
        ("features", "no names" if found.feature_names is None else _some(found.feature_names)),
        ("groups", "none" if found.groups is None else str(found.groups)),
        ("partition", f"{given}; agents: {found.agents}, columns of each: {width}"),
        ("memory", f"{human_size(found.memory_needed)} needed: {_terms(terms)}"),
        ("", f"{human_size(found.memory_available)} available, {verdict}"),
    ]


def _finite(found: Survey) -> str:
    if found.nonfinite is None:
        return "not checked"
    return "yes" if found.nonfinite == 0 else f"no, {found.nonfinite} values are not"


def _constant(found: Survey) -> str:
    columns = found.constant_columns
    if columns is None:
        return "not checked"
    return f"{len(columns)}: {_some([str(k) for k in columns])}" if columns else "none"


def _terms(terms: dict[str, int]) -> str:
    from fdglm_fast.memory import human_size

    return ", ".join(f"{name} {human_size(size)}" for name, size in terms.items())


def _some(names: list[str]) -> str:
    from fdglm_fast.files import printable

    shown = ", ".join(printable(name, 40) for name in names[:_SHOWN])
    return shown + (f", ... ({len(names)} in all)" if len(names) > _SHOWN else "")


def _shape(sizes: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in sizes)

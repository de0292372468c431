"""The report as tables."""

from __future__ import annotations

from typing import Any

CASE_COLUMNS = (
    "agents",
    "graph",
    "dtype",
    "threads",
    "schedule",
    "bandwidth\nGB/s",
    "limit\nms",
    "solver\nms",
    "share of\nthe limit",
    "NumPy\nms",
    "times\nNumPy",
    "fast\nms",
    "fast,\ntimes paper",
    "median of\nrounds",
)
SCALING_COLUMNS = (
    "samples",
    "features",
    "agents",
    "graph",
    "threads",
    "bandwidth\nGB/s",
    "limit\nms",
    "solver\nms",
    "share of\nthe limit",
)
OVERHEAD_COLUMNS = (
    "agents",
    "graph",
    "dtype",
    "threads",
    "what",
    "with\ns",
    "without\ns",
    "difference\n%",
    "timed\n%",
    "allowed\n%",
)
WIDTH = 124  # numbers are never cut short; a narrower terminal wraps lines itself
_WORDS = ("graph", "dtype", "schedule", "what", "engine")


def print_report(report: dict[str, Any]) -> None:
    """The table of whichever kind of run this was."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    console = Console(width=max(console.width, WIDTH), highlight=False, markup=False)
    if "cases" in report:
        console.print(f"n = {report['samples']}, d = {report['features']}, best of {report['rounds']} rounds\n")
        console.print(plain_table(CASE_COLUMNS, [case_cells(row) for row in report["cases"]]))
    if "scaling" in report:
        console.print(plain_table(SCALING_COLUMNS, [scaling_cells(row) for row in report["scaling"]]))
        _print_lines(console, report["scaling"])
    if "overhead" in report:
        console.print(f"n = {report['samples']}, d = {report['features']}, best of {report['rounds']} rounds\n")
        console.print(plain_table(OVERHEAD_COLUMNS, [overhead_cells(row) for row in report["overhead"]]))


def plain_table(columns: tuple[str, ...], rows: list[list[str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in columns:
        numeric = name not in _WORDS
        table.add_column(Text(name), justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def case_cells(row: dict[str, Any]) -> list[str]:
    return [
        str(row["agents"]),
        row["graph"],
        row["dtype"],
        str(row["threads"]),
        row["schedule"],
        f"{row['bandwidth_gb_s']:.1f}",
        _ms(row["limit_ms"]),
        _ms(row["solver_ms"]),
        f"{row['share_of_limit']:.2f}",
        _ms(row["numpy_ms"]),
        f"{row['times_numpy']:.2f}",
        _ms(row["fast_ms"]),
        f"{row['fast_times_paper']:.2f}",
        # Reports of older versions have none.
        f"{row['fast_times_paper_median']:.2f}" if "fast_times_paper_median" in row else "",
    ]


def scaling_cells(row: dict[str, Any]) -> list[str]:
    return [
        str(row["samples"]),
        str(row["features"]),
        str(row["agents"]),
        row["graph"],
        str(row["threads"]),
        f"{row['bandwidth_gb_s']:.1f}",
        _ms(row["limit_ms"]),
        _ms(row["solver_ms"]),
        f"{row['share_of_limit']:.2f}",
    ]


def overhead_cells(row: dict[str, Any]) -> list[str]:
    return [
        str(row["agents"]),
        row["graph"],
        row["dtype"],
        str(row["threads"]),
        row["what"],
        f"{row['with_s']:.3f}",
        f"{row['without_s']:.3f}",
        f"{100.0 * row['difference']:+.2f}",
        f"{100.0 * row['share']:.3f}",
        f"{100.0 * row['allowed']:.0f}",
    ]


def _print_lines(console: Any, rows: list[dict[str, Any]]) -> None:
    from fdglm_bench.scaling import lines_of

    console.print()
    for varied, agents, graph, line in lines_of(rows):
        who = "one agent" if agents == 1 else f"{agents} agents, {graph}"
        console.print(
            f"{who}: {line.a:.3g} ms + {1e3 * line.b:.3g} ms per 1000 {varied}, off by {100 * line.worst:.1f} % at most"
        )


def _ms(value: float) -> str:
    """Three figures at least, and no exponent."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.1f}"

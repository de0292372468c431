"""The figures: time of an iteration against the number of agents, and against n and d."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fdglm_bench.cases import GRAPHS, NO_GRAPH
from fdglm_fast.errors import UsageError
from fdglm_fast.files import atomic_path, check_output, printable

KINDS = ("svg", "png")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fdglm",
    "svg.fonttype": "none",
    "text.usetex": False,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "grid.color": "#e4e8ec",
    "axes.axisbelow": True,
    "axes.edgecolor": "#8795a1",
    "axes.labelcolor": "#1f2933",
    "xtick.color": "#52606d",
    "ytick.color": "#52606d",
    "text.color": "#1f2933",
}
INK, FAINT = "#1f2933", "#52606d"
COLOURS = ("#3b82c4", "#e4572e", "#2a9d5c", "#8d5bb5", "#c98a00", "#d6478f", "#2aa5b5", "#7a5c3e")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
NAMES = {"f64": "float64", "f32": "float32"}


def figure_names(scaling: bool, threads: list[int]) -> list[str]:
    """Names, without their endings, of the figures of a run."""
    return ["bench-scaling"] if scaling else [f"bench-agents-threads-{count}" for count in threads]


def check_folder(folder: str, names: list[str], force: bool) -> None:
    """Make the folder; refuse, before any work, figures that exist (without `force`) or cannot be written."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder '{printable(folder)}' cannot be made: {error.strerror}.") from error
    for path in _paths(folder, names):
        check_output(path, force)


def save_figures(report: dict[str, Any], folder: str, force: bool) -> list[Path]:
    """Draw what the report holds, as SVG and PNG; returns the files."""
    written: list[Path] = []
    if report.get("cases"):
        for threads in sorted({row["threads"] for row in report["cases"]}):
            name = figure_names(False, [threads])[0]
            written += _save(folder, name, partial(draw_agents, report, threads), force)
    if report.get("scaling"):
        written += _save(folder, figure_names(True, [])[0], partial(draw_scaling, report), force)
    return written


def _paths(folder: str, names: list[str]) -> list[Path]:
    return [Path(folder) / f"{name}.{kind}" for name in names for kind in KINDS]


def _save(folder: str, name: str, draw: Callable[[], Any], force: bool) -> list[Path]:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(STYLE):
        figure = draw()
        FigureCanvasAgg(figure)
        for kind, path in zip(KINDS, _paths(folder, [name]), strict=True):
            stream = io.BytesIO()
            figure.savefig(stream, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
            with atomic_path(path, force) as temporary:
                temporary.write_bytes(stream.getvalue())
    return _paths(folder, [name])


# --- time against the number of agents --------------------------------------------------------------------


def draw_agents(report: dict[str, Any], threads: int) -> Any:
    """A row of panels for each type: the solver on the left, NumPy on the right, the limit in both."""
    from matplotlib.figure import Figure

    rows = [row for row in report["cases"] if row["threads"] == threads]
    dtypes = [dtype for dtype in NAMES if any(row["dtype"] == dtype for row in rows)]
    figure = Figure(figsize=(9.6, 1.5 + 3.5 * len(dtypes)), facecolor="white", layout="constrained")
    panels = figure.subplots(len(dtypes), 2, sharex=True, sharey="row", squeeze=False)
    present = dict.fromkeys(row["graph"] for row in rows if row["graph"] != NO_GRAPH)
    graphs = sorted(present, key=lambda graph: list(GRAPHS).index(graph) if graph in GRAPHS else len(GRAPHS))
    handles: dict[str, Any] = {}
    for dtype, pair in zip(dtypes, panels, strict=True):
        mine = [row for row in rows if row["dtype"] == dtype]
        for axes, key, who in zip(pair, ("solver_ms", "numpy_ms"), ("fdglm", "NumPy"), strict=True):
            handles |= _agents_panel(axes, mine, key, graphs)
            axes.set_title(f"{who}, {NAMES[dtype]}", loc="left", fontsize=11, weight="bold")
        pair[0].set_ylabel("ms an iteration")
    for axes in panels[-1]:
        axes.set_xlabel("agents")
    _title(figure, report, f"{threads} thread{'s' if threads > 1 else ''}")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _agents_panel(axes: Any, rows: list[dict[str, Any]], key: str, graphs: list[str]) -> dict[str, Any]:
    """One line a graph, all from the point of one agent, and the limit; returns the lines by name."""
    alone = [row for row in rows if row["agents"] == 1]
    handles = {}
    for index, graph in enumerate(graphs):
        line = sorted((row for row in rows if row["graph"] == graph), key=lambda row: row["agents"])
        both = alone + line
        look = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        x, y = [row["agents"] for row in both], [row[key] for row in both]
        handles[graph] = axes.plot(x, y, lw=1.6, ms=5, mec="white", mew=0.6, **look)[0]
    if alone:
        handles["one agent"] = axes.plot(1, alone[0][key], "o", color=INK, ms=6, ls="none", zorder=4)[0]
    limits: dict[int, float] = {}
    for row in rows:  # the best bandwidth that was seen gives the lowest limit
        limits[row["agents"]] = min(row["limit_ms"], limits.get(row["agents"], row["limit_ms"]))
    sizes = sorted(limits)
    handles["memory limit"] = axes.plot(sizes, [limits[m] for m in sizes], "--", color=INK, lw=1.3)[0]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(m) for m in sizes])
    axes.minorticks_off()
    _plain_ticks(axes)
    return handles


def _plain_ticks(axes: Any) -> None:
    """1, 2, 5, 10, ... on a logarithmic axis, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


# --- time against n and d ---------------------------------------------------------------------------------


def draw_scaling(report: dict[str, Any]) -> Any:
    """Against n on the left, against d on the right: points, the line that fits them, and the limit."""
    from matplotlib.figure import Figure

    from fdglm_bench.scaling import lines_of

    rows = report["scaling"]
    figure = Figure(figsize=(9.6, 4.6), facecolor="white", layout="constrained")
    panels = dict(zip(("samples", "features"), figure.subplots(1, 2, sharey=True), strict=True))
    networks = list(dict.fromkeys((row["agents"], row["graph"]) for row in rows))
    lines = {(varied, m, graph): line for varied, m, graph, line in lines_of(rows)}
    for varied, axes in panels.items():
        for index, network in enumerate(networks):
            mine = [row for row in rows if row["varied"] == varied and (row["agents"], row["graph"]) == network]
            _scaling_line(axes, mine, varied, lines.get((varied, *network)), index)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        other = f"d = {report['features']}" if varied == "samples" else f"n = {report['samples']}"
        axes.set_xlabel(f"{varied}, {'n' if varied == 'samples' else 'd'}  ({other})")
        axes.legend(frameon=False, fontsize=9, loc="upper left")
    panels["samples"].set_ylabel("ms an iteration")
    _title(figure, report, f"float64, {rows[0]['threads']} thread{'s' if rows[0]['threads'] > 1 else ''}")
    return figure


def _scaling_line(axes: Any, rows: list[dict[str, Any]], varied: str, line: Any, index: int) -> None:
    if not rows:
        return
    colour, m = COLOURS[index], rows[0]["agents"]
    who = "one agent" if m == 1 else f"{m} agents, {rows[0]['graph']}"
    sizes = [row[varied] for row in rows]
    off = "" if line is None else f"; line off by {100 * line.worst:.1f} % at most"
    axes.plot(sizes, [row["solver_ms"] for row in rows], MARKERS[index], color=colour, ms=6, label=f"{who}{off}")
    if line is not None:
        ends = [0, max(sizes)]
        axes.plot(ends, [line.at(x) for x in ends], color=colour, lw=1.3)
    limits = [row["limit_ms"] for row in rows]
    axes.plot(sizes, limits, "--", color=colour, lw=1.0, alpha=0.8, label=f"memory limit, {who}")


def _title(figure: Any, report: dict[str, Any], how: str) -> None:
    machine = report.get("machine") or {}
    size = f"n = {report['samples']}, d = {report['features']}" if "cases" in report else "growth with n and d"
    text = f"Time of an iteration: {size}, {how}"
    figure.suptitle(f"{text}\n{printable(machine.get('cpu') or '', 70)}", x=0.01, ha="left", fontsize=11)

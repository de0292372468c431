"""The tables of fdglm cost."""

from __future__ import annotations

from typing import Any

PHASES = {"shared": "shared sums", "dual": "dual step", "average": "averages"}
COLUMNS = ("model", "counted", "counted_minus_model", "counted_with_doublings", "executed", "executed_minus_model")
HEADS = ("model", "counted", "- model", "with doublings", "executed", "- model")
SHARES = ("compute", "latency", "transfer")


def print_report(report: dict[str, Any], everyone: bool) -> None:
    """Whatever parts the report has."""
    printer = _Printer()
    if "operations" in report:
        _operations(printer, report, everyone)
        _facts(printer, report)
        _times(printer, report["time"])
        if report["check"] is not None:
            _check(printer, report["check"])
    if "scale" in report:
        _scale(printer, report["scale"])
    for one in report.get("derivation", []):
        _derivation(printer, one)


class _Printer:
    """Tables on standard output; no number is ever cut short, whatever the width of the terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False, markup=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, markup=False, width=160)

    def table(
        self, title: str, heads: tuple[str, ...], rows: list[list[str]], left: int = 1, heading: bool = True
    ) -> None:
        """A table under its title; the first `left` columns are words."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=heading)
        for k, head in enumerate(heads):
            table.add_column(head, justify="left" if k < left else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        if title:
            self.line(title, bold=True)
        self.console.print(table)
        self.line("")

    def line(self, text: str, bold: bool = False) -> None:
        from rich.text import Text

        self.console.print(Text(text, style="bold" if bold else ""))


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if isinstance(value, float) else f"{value:,}"


def _phases(phases: dict[str, Any]) -> list[list[str]]:
    return [[PHASES.get(phase, phase), *(_whole(row[key]) for key in COLUMNS)] for phase, row in phases.items()]


def _operations(printer: _Printer, report: dict[str, Any], everyone: bool) -> None:
    from fdglm_fast.files import printable

    data, graph, found = report["data"], report["graph"], report["operations"]
    where = "one agent" if graph["spec"] is None else f"{report['agents']} agents on {printable(graph['spec'])}"
    of = "" if data["path"] is None else f"{printable(data['path'])}: "
    printer.line(
        f"{of}{data['n']} samples x {data['d']} features, {data['dtype']}, {where}, "
        f"{report['loss']} loss, penalty {report['penalty']}"
    )
    printer.line("Operations of one iteration; doubling is free, and one operation in the column 'with doublings'.\n")
    heads = ("phase", *HEADS)
    one = found["max_degree_agent"]
    title = f"agent {one['index'] + 1}, of the largest degree: d_j = {one['d_j']}, deg_j = {one['degree']}"
    printer.table(title, heads, _phases(one["phases"]))
    printer.table("all agents", heads, _phases(found["total"]))
    if everyone:
        rows = [_agent(one) for one in found["agents"]]
        printer.table("every agent: theta, v and lambda", ("agent", "d_j", "deg_j", *HEADS), rows, left=0)
    rows = found["samples_executed"]
    if rows is not None and rows != data["n"]:
        printer.line(f"The kernels compute with {rows} samples, whole tiles; {rows - data['n']} of them are padding.\n")
    if not found["dual_exact"] and found["dual_per_sample"]:
        steps = found["dual_per_sample"]
        printer.line(
            f"The dual step depends on the data: {steps['min']} to {steps['max']} operations a sample, "
            f"{steps['mean']:.3g} on average; counted is that average.\n"
        )


def _agent(one: dict[str, Any]) -> list[str]:
    total = one["phases"]["total"]
    return [str(one["index"] + 1), str(one["d_j"]), str(one["degree"]), *(_whole(total[key]) for key in COLUMNS)]


def _fast_rows(fast: dict[str, float] | None) -> list[list[str]]:
    if fast is None:
        return []
    besides = f"{fast['look']:,.1f} for a look at the residual, {fast['restart']:,.1f} for a restart"
    return [
        ["fast, per agent", f"{fast['per_agent']:,.1f} operations; besides {besides}"],
        ["normalised cost", f"{fast['normalized']:.6f} of a single agent's iteration (paper's method)"],
    ]


def _facts(printer: _Printer, report: dict[str, Any]) -> None:
    from fdglm_fast.memory import human_size

    paper, sent, memory = report["paper"], report["messages"], report["memory"]
    agent, edge, total = sent["per_agent"], sent["per_edge"], sent["total"]
    largest = memory["largest"]
    terms = ", ".join(f"{name} {human_size(size)}" for name, size in largest["terms"].items() if size)
    rows = [
        ["paper, per agent", f"{paper['per_agent']:,.1f} operations (with d/m and the largest degree)"],
        ["one agent alone", f"{paper['single_agent']:,.0f} operations"],
        ["normalised cost", f"{paper['normalized']:.6f} of a single agent's iteration"],
        *_fast_rows(paper.get("fast")),
        ["sent by an agent", f"{_range(agent['messages'], str)} messages, {_range(agent['bytes'], human_size)}"],
        ["over an edge", f"{edge['messages']} messages, {human_size(edge['bytes'])}"],
        ["sent in total", f"{total['messages']:,} messages, {human_size(total['bytes'])}"],
        ["memory of an agent", f"up to {human_size(largest['bytes'])} (agent {largest['index'] + 1}: {terms})"],
        ["memory in total", human_size(memory["total"])],
    ]
    printer.table("in one iteration", ("", ""), rows, left=2, heading=False)


def _range(spread: dict[str, Any], show: Any) -> str:
    if spread["min"] == spread["max"]:
        return str(show(spread["max"]))
    return f"{show(spread['min'])} to {show(spread['max'])}"


def _times(printer: _Printer, times: dict[str, Any]) -> None:
    rows = [
        [
            name,
            *(f"{one[key]:.3g}" for key in ("flops", "latency", "bandwidth")),
            _seconds(one["seconds"]["total"]),
            *(f"{100 * one['shares'][share]:.1f} %" for share in SHARES),
            _seconds(one["single_agent_seconds"]),
        ]
        for name, one in times.items()
    ]
    heads = ("network", "flops", "latency", "bandwidth", "seconds", *SHARES, "one agent")
    printer.table("modelled time of an iteration, in seconds", heads, rows)


def _seconds(value: float) -> str:
    return f"{value:.4g}"


def _check(printer: _Printer, verdict: dict[str, Any]) -> None:
    small = verdict["counted_outright"]
    where = (
        f"{verdict['agents_at_full_size']} agents at full size and {small['agents']} agents, n = {small['n']}, "
        f"d = {small['d']}, {small['edges']} edges, counted outright"
    )
    if verdict["passed"]:
        printer.line(f"check: counted = model, operation by operation ({where}).")
        return
    printer.line(f"check: FAILED, counted and model differ ({where}):")
    for sentence in verdict["differences"]:
        printer.line(f"  {sentence}")


def _scale(printer: _Printer, scale: dict[str, Any]) -> None:
    from fdglm_fast.memory import human_size

    rows = [
        [
            row["family"],
            f"{row['agents']:,}",
            f"{row['features']:,}",
            f"{row['degree']:.1f}",
            f"{row['max_degree']:.1f}",
            f"{row['spectral_gap']:.3g}",
            f"{row['operations']:.4g}",
            f"{row['normalized']:.3g}",
            human_size(round(row["agent_bytes"])),
            human_size(round(row["total_bytes"])),
            _seconds(row["seconds"]),
            f"{100 * row['communication']:.1f} %",
            _seconds(row["single_seconds"]),
        ]
        for row in scale["rows"]
    ]
    heads = (
        "graph",
        "agents",
        "features",
        "degree",
        "largest",
        "gap",
        "operations",
        "of single",
        "sent each",
        "sent",
        "seconds",
        "network",
        "one agent",
    )
    printer.table(f"an iteration at scale, network '{scale['network']}', from closed forms", heads, rows)


def _derivation(printer: _Printer, one: dict[str, Any]) -> None:
    printer.line(f"{one['case']}:  {one['formula']}", bold=True)
    rows = [[phase, both["fitted"] or "no polynomial", both["paper"]] for phase, both in one["phases"].items()]
    rows.append(["total", one["fitted"] or "no polynomial", one["paper"]])
    printer.table("", ("phase", "fitted to the counts", "paper"), rows, left=3)
    parts = [[c["monomial"], c["fitted"], c["paper"], c["difference"]] for c in one["coefficients"]]
    printer.table("", ("coefficient of", "fitted", "paper", "difference"), parts)
    verdict = "every coefficient is the same" if one["confirmed"] else "NOT the paper's"
    printer.line(
        f"{one['points']} sizes fitted, {one['held_out']} held out: {verdict}. "
        f"Doublings on top: {one['doublings'] or 'no polynomial'}."
    )
    for sentence in one["wrong"]:
        printer.line(f"  {sentence}")
    printer.line("")

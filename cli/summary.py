"""The table at the end of a solve."""

from __future__ import annotations

from typing import Any

_ENDS = {
    "iterations": "all {} done",
    "tolerance": "tolerance reached after {}",
    "time-limit": "time limit reached after {}",
    "interrupted": "interrupted after {}",
    "diverged": "iterates grow without bound; this is the state after {}",
    "not-finite": "iterates not finite any more; this is the state after {}",
}


def print_summary(report: dict[str, Any]) -> None:
    """What was solved, how it ended and how long it took."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in _rows(report):
        table.add_row(name, text)
    Console(highlight=False, markup=False, soft_wrap=False).print(table)


def _rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    data, graph, steps, times = report["data"], report["graph"], report["steps"], report["time"]
    rows = [("data", f"{_safe(data['path'])}: {data['n']} samples x {data['d']} features, {data['dtype']}")]
    if report["compressed"]:
        rows.append(("compressed", f"to the triangular factor of [X y], {data['d'] + 1} rows"))
    penalty = report["penalty"] + (f", weight {report['reg']:g}" if report["reg"] else "")
    rows.append(("model", f"{report['loss']} loss, penalty {penalty}"))
    if report["agents"] == 1:
        rows.append(("agents", "1"))
    else:
        shape = f"{_many(graph['edges'], 'edge')}, largest degree {graph['max_degree']}"
        spectrum = f"||L|| {graph['laplacian_norm']:.6g}, spectral gap {graph['spectral_gap']:.6g}"
        again = f", drawn again {_many(graph['attempt'], 'time')}" if graph["attempt"] else ""
        rows.append(("agents", f"{report['agents']} on {_safe(graph['spec'])}{again}: {shape}, {spectrum}"))
        rows += _weights(graph)
    rows += _steps(report["method"], steps)
    rows.append(("method", _method(report)))
    rows.append(("ended", _ENDS[report["stop_reason"]].format(_many(report["iterations"], "iteration"))))
    rows += _measurements(report)
    rows.append(
        (
            "time",
            f"{times['iterate']:.3g} s, {times['per_iteration_ms']:.4g} ms an iteration, "
            + _many(report["threads"], "thread"),
        )
    )
    if report.get("mpi"):
        rows.append(_ranks(report["mpi"]))
    parts = ["load", "setup", "compile"] + ([] if report["objective"]["reference"] is None else ["reference"])
    return [*rows, ("", ", ".join(f"{name} {times[name]:.2g} s" for name in parts))]


def _method(report: dict[str, Any]) -> str:
    cost = report["cost"]
    sent = f"{_many(cost['exchanges'], 'exchange')} of vectors, {cost['bytes_total'] / 1e9:.4g} GB sent"
    besides = f", {_many(cost['restarts'], 'restart')}" if report["method"] == "fast" else ""
    return f"{report['method']}{besides}" + (f", {sent}" if report["agents"] > 1 else "")


def _steps(method: str, steps: dict[str, Any]) -> list[tuple[str, str]]:
    if method == "fast":
        sigma = f"sigma {steps['sigma']['least']:.6g} to {steps['sigma']['largest']:.6g}"
        taus = f"tau {steps['tau_theta']:.6g} for theta, {steps['tau_v']:.6g} for v"
        return [("steps", f"of the agents' own data, weight {steps['weight']:.6g}: {sigma}"), ("", taus)]
    radius = f"R {steps['R']:.6g} ({steps['sources'].get('R')})"
    return [
        ("steps", f"{steps['rule']}: sigma {steps['sigma']:.6g}, tau {steps['tau']:.6g}"),
        ("", f"chi {steps['chi']:.6g}, {radius}"),
    ]


def _weights(graph: dict[str, Any]) -> list[tuple[str, str]]:
    """What weights other than one do to the theorem's bound."""
    used, unit = graph["bound_factor"], graph["unit_bound_factor"]
    if graph["weights"] == "unit" or not used:
        return []
    change = f"{used:.6g} in the theorem's bound, {unit:.6g} with unit weights ({used / unit:.3g} times)"
    return [("weights", f"{graph['weights']}: a factor of {change}")]


def _ranks(found: dict[str, Any]) -> tuple[str, str]:
    """Where the agents were, and what an iteration sent; the model sends once an edge, a rank once a rank."""
    columns = f"{min(found['columns'])} to {max(found['columns'])} columns each"
    sent, model = found["bytes_per_iteration"], found["model_bytes_per_iteration"]
    return "ranks", f"{found['ranks']}, {columns}, {_many(found['cut_edges'], 'edge')} cut; {sent} bytes an " + (
        f"iteration sent, {model} by the model of one message an edge"
    )


def _measurements(report: dict[str, Any]) -> list[tuple[str, str]]:
    def pair(name: str) -> str:
        found = report[name]
        if report["method"] == "fast":
            return _number(found["last"])
        return f"average {_number(found['average'])}, last {_number(found['last'])}"

    best = report["objective"]["reference"]
    rows = [("objective", pair("objective") + (f", reference {_number(best)}" if best is not None else ""))]
    if report["relative_error"]["average"] is not None:
        rows.append(("relative error", pair("relative_error")))
    rows.append(("residual", pair("residual")))
    if report["duality_gap"]["average"] is not None:
        rows.append(("duality gap", pair("duality_gap")))
    if report["better"] is not None and report["method"] == "paper":
        better = {"average": "the average", "last": "the last iterate"}[report["better"]]
        rows.append(("better", f"{better} has the smaller objective"))
    if report["bound"] is not None:
        rows.append(("theorem", f"guarantees a gap of {report['bound']:.6g} for the average"))
    else:
        rows.append(("theorem", f"no bound: {report['bound_why_not']}"))
    return rows


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.10g}"


def _safe(text: str) -> str:
    from fdglm_fast.files import printable

    return printable(text)

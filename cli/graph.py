"""fdglm graph: the numbers of a network that decide how fast a solve can be, and a drawing of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fdglm_fast.graph_bounds import GraphBound
    from fdglm_fast.network import Network


@click.command("graph")
@click.option("--agents", type=click.IntRange(min=1), required=True, metavar="M", help="Number of agents.")
@click.option(
    "--graph",
    "spec",
    required=True,
    metavar="SPEC",
    help="complete, star, er:P, lattice, rgg[:R], ring, path, regular:K, hypercube or file:PATH.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For random graphs.")
@click.option(
    "--weights",
    default="unit",
    show_default=True,
    metavar="RULE",
    help="Weights of the edges: unit, metropolis, file, scaled (needs --chi) or optimal.",
)
@click.option("--chi", type=float, help="Bound on ||X||: scales scaled and optimal weights, shows the bound's factor.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--plot", metavar="FILE.svg", help="Draw the network into a file.")
@click.option("--force", is_flag=True, help="Overwrite the drawing if it exists.")
def command(
    agents: int,
    spec: str,
    seed: int,
    weights: str,
    chi: float | None,
    as_json: bool,
    plot: str | None,
    force: bool,
) -> None:
    """Edges, degrees, diameter and spectrum of a network, beside what the paper's bounds say of them."""
    from fdglm_fast.network import build_network

    if plot is not None:
        from fdglm_fast.network_plot import check_drawing

        check_drawing(plot, force)
    network = build_network(spec, agents, seed, weights, chi)
    report = _report(network, weights, chi)
    if plot is not None:
        from fdglm_fast.network_plot import save_drawing

        save_drawing(network, plot, force)
    report["plot"] = plot
    if as_json:
        click.echo(json.dumps(report, allow_nan=False))
    else:
        _print_tables(report)


def _report(network: Network, weights: str, chi: float | None) -> dict[str, Any]:
    from fdglm_fast.best_scale import bound_factors
    from fdglm_fast.graph_bounds import graph_bounds

    gap = network.spectral_gap
    factors = None if chi is None else bound_factors(network, chi)
    return {
        "agents": network.agents,
        "graph": {
            "spec": network.spec,
            "weights": weights,
            "seed": network.seed,
            "attempt": network.attempt,
            "edges": len(network.edges),
            "max_degree": network.max_degree,
            "degrees": _range(network.degrees),
            "weighted_degrees": _range(network.weighted_degrees),
            "connected": network.is_connected,
            "diameter": network.diameter,
            "laplacian_norm": network.laplacian_norm,
            "spectral_gap": gap,
            "pseudoinverse_norm": None if gap is None else 1.0 / gap,
            "condition": None if gap is None else network.laplacian_norm / gap,
            "chi": chi,
            "bound_factor": factors.used if factors else None,
            "unit_bound_factor": factors.unit if factors else None,
        },
        "bounds": {bound.name: _bound(bound) for bound in graph_bounds(network)},
    }


def _range(values: Any) -> dict[str, float]:
    return {"min": values.min().item(), "mean": float(values.mean()), "max": values.max().item()}


def _bound(bound: GraphBound) -> dict[str, Any]:
    return {
        "statement": bound.statement,
        "bound": bound.value,
        "exact": bound.exact,
        "holds": bound.holds,
        "reason": bound.reason,
    }


# --- tables -----------------------------------------------------------------------------------------------


def _print_tables(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    facts = Table(Column(), Column(overflow="fold"), show_header=False, box=None, pad_edge=False)
    for name, value in _facts(report):
        facts.add_row(Text(name, style="bold"), Text(value))  # Text: a file's name must not be read as markup
    console = Console()
    console.print(facts)
    if not report["bounds"]:
        return
    widths = {"bound": 9, "statement": 35, "value": 10, "exact": 10}  # numbers are never cut short
    columns = [Column(name, no_wrap=True, min_width=width) for name, width in widths.items()]
    bounds = Table(*columns, "holds", box=None, pad_edge=False)
    for name, bound in report["bounds"].items():
        if bound["bound"] is None:
            value = holds = "-"
        else:
            value, holds = f"{bound['bound']:.5g}", "yes" if bound["holds"] else "no"
        bounds.add_row(*(Text(part) for part in (name, bound["statement"], value, f"{bound['exact']:.7g}", holds)))
    console.print()
    console.print(bounds)
    for name, bound in report["bounds"].items():
        if bound["reason"] is not None:
            console.print(Text(f"{name}: {bound['reason']}", style="dim"))


def _facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    from fdglm_fast.files import printable

    graph = report["graph"]
    drawn = "" if graph["seed"] is None else f", seed {graph['seed']}, attempt {graph['attempt']}"
    facts = [
        (
            "graph",
            "none, one agent"
            if report["agents"] == 1
            else f"{printable(graph['spec'])} between {report['agents']} agents{drawn}",
        ),
        ("edges", f"{graph['edges']}, {graph['weights']} weights"),
        ("degrees", _spread(graph["degrees"])),
        ("weighted degrees", _spread(graph["weighted_degrees"])),
        ("connected", "yes" if graph["connected"] else "no"),
        ("diameter", "not computed" if graph["diameter"] is None else str(graph["diameter"])),
        ("||L||", _number(graph["laplacian_norm"])),
        ("spectral gap", _number(graph["spectral_gap"])),
        ("||L^+||", _number(graph["pseudoinverse_norm"])),
        ("||L|| ||L^+||", _number(graph["condition"])),
    ]
    if graph["bound_factor"] is not None:
        unit = f"{graph['unit_bound_factor']:.6g} with unit weights"
        facts.append(("bound's factor", f"{graph['bound_factor']:.6g}, {unit}, for ||X|| <= {graph['chi']:.6g}"))
    if report["plot"] is not None:
        facts.append(("drawing", printable(report["plot"])))
    return facts


def _spread(values: dict[str, float]) -> str:
    return f"{values['min']:.6g} to {values['max']:.6g}, mean {values['mean']:.6g}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"

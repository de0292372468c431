"""fdglm cost: what an iteration costs, modelled, counted and executed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from fdglm_cli.options import method_option, model_options

if TYPE_CHECKING:
    from fdglm_fast.cost.setting import Setting
    from fdglm_fast.cost.timing import Link


@click.command("cost")
@click.argument("data", metavar="[FILE.h5[::/GROUP]]", required=False)
@click.option("--samples", type=click.IntRange(min=1), metavar="N", help="Number of samples, instead of a file.")
@click.option("--features", type=click.IntRange(min=1), metavar="D", help="Number of features, instead of a file.")
@click.option("--agents", type=click.IntRange(min=1), metavar="M", help="Number of agents.")
@click.option(
    "--graph",
    default="complete",
    show_default=True,
    metavar="SPEC",
    help="complete, star, er:P, lattice, rgg[:R], ring, path, regular:K, hypercube, file:PATH.",
)
@click.option(
    "--weights", default="unit", show_default=True, metavar="RULE", help="unit, metropolis, file, scaled or optimal."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of random graphs.")
@model_options
@method_option
@click.option("--x", "x", default="X", show_default=True, metavar="NAME", help="Dataset of the design.")
@click.option("--dtype", type=click.Choice(["f32", "f64"]), help="Arithmetic.  [default: of the file, else f64]")
@click.option("--network", metavar="PRESET", help="one-machine, data-centre, internet, sensor-network.  [default: all]")
@click.option("--flops", type=float, metavar="RATE", help="Operations a second of an agent.")
@click.option("--latency", type=float, metavar="SECONDS", help="Time for a message to arrive.")
@click.option("--bandwidth", type=float, metavar="RATE", help="Bytes a second that leave over an agent's link.")
@click.option("--executed/--no-executed", default=True, show_default=True, help="Run the kernels' own tally.")
@click.option("--all", "everyone", is_flag=True, help="A line for every agent.")
@click.option("--scale", is_flag=True, help="The same for up to a million agents, from closed forms.")
@click.option("--derive", is_flag=True, help="Derive the paper's formula: count, fit, compare every coefficient.")
@click.option("--check", is_flag=True, help="Exit with 1 if counted and model differ by a single operation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(**given: Any) -> None:
    """Operations of an iteration by phase (model, counted, executed), messages, memory and modelled time.

    The sizes come from a file or from --samples and --features. Counted are the solver's own updates, run on numbers
    that count what is done to them; executed is the tally of the compiled kernels.
    """
    from fdglm_fast.cost.timing import PRESETS

    _check_usage(given)
    links = _links(given)
    report: dict[str, Any] = {}
    if given["agents"] is not None:
        report.update(_report(given, links))
    if given["scale"]:
        name, link = next(iter(links.items())) if len(links) == 1 else ("internet", PRESETS["internet"])
        report["scale"] = {"network": name, "rows": _scale(given, link)}
    if given["derive"]:
        from fdglm_fast.cost.derive import derive

        report["derivation"] = [one.as_json() for one in derive()]
    if given["as_json"]:
        click.echo(json.dumps(report, allow_nan=False))
    else:
        from fdglm_cli.cost_tables import print_report

        print_report(report, given["everyone"])
    if given["check"] and not _passed(report):
        raise click.exceptions.Exit(1)


def _check_usage(given: dict[str, Any]) -> None:
    from fdglm_fast.errors import UsageError
    from fdglm_fast.options import check_method

    check_method(given["method"])
    sizes = [given[name] is not None for name in ("samples", "features")]
    if given["data"] is not None and any(sizes):
        raise UsageError("give a file, or --samples and --features, not both.")
    known = given["data"] is not None or all(sizes)
    if any(sizes) and not all(sizes):
        raise UsageError("--samples and --features go together.")
    if not known and (given["agents"] is not None or given["scale"]):
        raise UsageError("a file, or --samples and --features, must say how large the problem is.")
    if given["agents"] is None and not given["derive"] and not given["scale"]:
        raise UsageError("--agents must say how many agents there are (or ask for --derive or --scale).")
    if given["check"] and given["agents"] is None and not given["derive"]:
        raise UsageError("--check needs --agents or --derive: closed forms alone leave nothing to compare.")


def _links(given: dict[str, Any]) -> dict[str, Link]:
    """All presets, the one that was asked for, or the user's own figures (which may amend a preset)."""
    from dataclasses import replace

    from fdglm_fast.cost.timing import PRESETS, Link
    from fdglm_fast.errors import UsageError, unknown_name

    own = {name: given[name] for name in ("flops", "latency", "bandwidth") if given[name] is not None}
    preset = given["network"]
    if preset is not None and preset not in PRESETS:
        raise unknown_name("network", preset, PRESETS)
    if preset is not None:
        return {preset: replace(PRESETS[preset], **own)}
    if not own:
        return dict(PRESETS)
    if len(own) < 3:
        raise UsageError("--flops, --latency and --bandwidth go together, unless --network gives the others.")
    return {"given": Link(**own)}


def _setting(given: dict[str, Any]) -> Setting:
    from dataclasses import replace

    from fdglm_fast.cost.setting import from_file, from_sizes
    from fdglm_fast.losses import parse_loss
    from fdglm_fast.network import unscaled_network
    from fdglm_fast.penalties import parse_penalty

    model = parse_loss(given["loss"]), parse_penalty(given["penalty"], given["reg"])
    # A common factor of the weights is part of a step and costs nothing, so that chi is not needed.
    network = unscaled_network(given["graph"], given["agents"], given["seed"], given["weights"])
    if given["data"] is None:
        found = from_sizes(given["samples"], given["features"], network, *model, given["dtype"])
    else:
        found = from_file(given["data"], given["x"], network, *model, given["dtype"])
    return replace(found, method=given["method"])


def _report(given: dict[str, Any], links: dict[str, Link]) -> dict[str, Any]:
    from fdglm_cli.terminal import say
    from fdglm_fast.cost.report import cost_report

    return cost_report(
        _setting(given),
        links,
        run_kernels=given["executed"],
        verify=given["check"],
        everyone=given["everyone"] or given["as_json"],
        notify=say,
    )


def _scale(given: dict[str, Any], link: Link) -> list[dict[str, Any]]:
    from fdglm_fast.cost.scale import scale_table
    from fdglm_fast.cost.setting import DTYPES

    n, d, dtype = given["samples"], given["features"], given["dtype"]
    if given["data"] is not None:
        from fdglm_fast.hdf5 import open_source

        with open_source(given["data"], given["x"]) as source:
            n, d, itemsize = source.n, source.d, source.solve_dtype.itemsize
    else:
        itemsize = 8
    if dtype is not None:
        itemsize = DTYPES[dtype]().itemsize
    return [row.as_json() for row in scale_table(n, d, itemsize, link)]


def _passed(report: dict[str, Any]) -> bool:
    verdict = report.get("check")
    derived = all(one["confirmed"] for one in report.get("derivation", []))
    return derived and (verdict is None or verdict["passed"])

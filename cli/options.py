"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which help shall list them."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def check_outputs(outputs: list[str], inputs: list[str], force: bool) -> None:
    """Refuse, before any work, outputs that cannot be written, and what is read or written twice under any name."""
    from fdglm_fast.errors import UsageError
    from fdglm_fast.files import check_output

    taken = {os.path.realpath(path) for path in inputs}
    for path in outputs:
        real = os.path.realpath(path)
        if real in taken:
            raise UsageError(f"'{path}' would be overwritten: it is an input, or an output already.")
        check_output(path, force)
        taken.add(real)


def parse_tags(pairs: tuple[str, ...]) -> dict[str, str]:
    """The tags of a result, KEY=VALUE each."""
    from fdglm_fast.errors import UsageError

    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--tag takes KEY=VALUE, not '{pair}'.")
    return dict(pair.split("=", 1) for pair in pairs)


def tolerance_asked(given: dict[str, Any]) -> bool:
    """Whether a run is to reach a tolerance: the fast method always is."""
    return given["tol"] is not None or given["method"] == "fast"


data_options = together(
    click.option("--x", "x", default="X", show_default=True, metavar="NAME", help="Dataset of the design."),
    click.option("--y", "y", default="y", show_default=True, metavar="NAME", help="Dataset of the response."),
    click.option("--dtype", type=click.Choice(["f32", "f64"]), help="Arithmetic.  [default: as the file is stored]"),
    click.option("--allow-filters", is_flag=True, help="Let HDF5 load filter plugins to read the file."),
)

network_options = together(
    click.option("--agents", type=click.IntRange(min=1), required=True, help="Number of agents, m."),
    click.option(
        "--graph",
        default="complete",
        show_default=True,
        metavar="SPEC",
        help="complete, star, er:P, lattice, rgg[:R], ring, path, regular:K, hypercube, file:PATH.",
    ),
    click.option(
        "--weights",
        default="unit",
        show_default=True,
        metavar="RULE",
        help="Edge weights: unit, metropolis, file, scaled (best factor) or optimal (least condition number).",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of random graphs."),
)

model_options = together(
    click.option(
        "--loss",
        default="squared",
        show_default=True,
        metavar="SPEC",
        help="squared, huber:K, absolute, quantile:Q, logistic, hinge, squared-hinge, poisson.",
    ),
    click.option(
        "--penalty",
        default="none",
        show_default=True,
        metavar="SPEC",
        help="none, l1, l2, elastic-net:RATIO, group-l2, nonneg, box:LO:HI.",
    ),
    click.option("--reg", type=float, default=0.0, show_default=True, help="Weight of the penalty."),
)

method_option = click.option(
    "--method",
    default="paper",
    show_default=True,
    help="paper: its iteration, with its theorem. fast: relaxed or anchored (Halpern), with restarts, to a tolerance.",
)

method_options = together(
    method_option,
    click.option(
        "--gossip",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="ROUNDS",
        help="Exchanges in an iteration of the fast method: fewer iterations where the spectral gap is small.",
    ),
    click.option(
        "--primal-weight",
        type=float,
        metavar="W",
        help="Weight between primal and dual of the fast method, held.  [default: guessed, changed at restarts]",
    ),
)

step_options = together(
    click.option(
        "--steps",
        default="theorem",
        show_default=True,
        metavar="RULE",
        help="theorem (Theorem 1 of the paper) or tight (a smaller valid norm).",
    ),
    click.option("--sigma", type=float, help="Dual step, together with --tau."),
    click.option("--tau", type=float, help="Primal step, together with --sigma."),
    click.option("--force-steps", is_flag=True, help="Take --sigma and --tau even where they may diverge."),
    click.option("--chi", type=float, help="Bound on ||X||.  [default: computed]"),
    click.option("--laplacian-norm", "D", type=float, help="Bound D on ||L||.  [default: computed]"),
    click.option("--spectral-gap", "delta", type=float, help="delta <= lambda_2 of L.  [default: computed]"),
    click.option("--radius", "R", type=float, help="Bound R on ||theta||.  [default: of the reference, or estimated]"),
)

"""From counts on small sizes to polynomials that hold at every size.

What an agent spends on a phase is a polynomial in n, d_j and deg_j. It is fitted, exactly, to counts on a grid of small
sizes, on stars whose centre has the degree that is wanted; every agent of every star is a point. Points that do not lie
on the polynomial, and points that were held out (larger sizes, other graphs, samples cut into tiles), would show that
the count is not what it seems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from fdglm_fast.cost.counter import count
from fdglm_fast.cost.instance import PAPER, Count, Instance
from fdglm_fast.cost.polynomial import Point, Polynomial, fit

GRID = (1, 2, 3)
FITTED = (*PAPER, "other")  # the same polynomial for every agent; `other` has to be zero


@dataclass(frozen=True)
class Kind:
    """What decides about the polynomial: penalty, loss of agent 1, weighted edges, a single agent, the method."""

    penalty: str = "l1"
    loss: str = "squared"
    weighted: bool = False
    single: bool = False
    method: str = "paper"


@dataclass(frozen=True, eq=False)
class Fit:
    """The polynomials of a kind by phase, None where counts are no polynomial.

    `dual` is agent 1's dual step. `average` are the running sums of theta, `average_first` those of agent 1, which sums
    up lambda too. `doublings` by phase. `wrong` has a sentence for every count that is not on its polynomial.
    """

    kind: Kind
    phases: dict[str, Polynomial | None]
    doublings: dict[str, Polynomial | None]
    points: int
    held_out: int
    dual_steps: list[int]
    wrong: list[str] = field(default_factory=list)

    def total(self) -> Polynomial | None:
        """theta, v and lambda together: what the paper's formula is about."""
        return add([self.phases[phase] for phase in PAPER])


def add(terms: Sequence[Polynomial | None]) -> Polynomial | None:
    total = Polynomial({})
    for term in terms:
        if term is None:
            return None
        total = total + term
    return total


def grid(kind: Kind) -> list[Instance]:
    """Instances to fit: stars (one agent by itself for a single agent), with agent 1 in the middle and outside."""
    if kind.single:
        return [_instance(kind, n, (d,), ()) for n, d in product(GRID, GRID)]
    found = []
    for n, d, degree, centre in product(GRID, GRID, GRID, (0, 1)):
        sizes = [1 + (n + j) % 3 for j in range(degree + 1)]
        sizes[centre] = d
        edges = tuple((min(centre, j), max(centre, j)) for j in range(degree + 1) if j != centre)
        found.append(_instance(kind, n, tuple(sizes), tuple(sorted(edges))))
    return found


def held_out(kind: Kind) -> list[Instance]:
    """Instances to test with: larger, in several tiles and groups of tiles, on other graphs."""
    if kind.single:
        return [_instance(kind, 6, (5,), (), tiles=3, group=2), _instance(kind, 5, (7,), ())]
    complete = tuple(combinations(range(6), 2))
    wheel = tuple(sorted({*((0, j) for j in range(1, 8)), *((j, j + 1) for j in range(1, 7)), (1, 7)}))
    path = tuple((j, j + 1) for j in range(4))
    return [
        _instance(kind, 6, (4, 1, 2, 5, 1, 3), complete, tiles=3, group=2),
        _instance(kind, 4, (5, 2, 1, 1, 4, 2, 3, 6), wheel, tiles=2),
        _instance(kind, 7, (2, 8, 1, 3, 4), path),
    ]


def _instance(
    kind: Kind, n: int, sizes: tuple[int, ...], edges: tuple[tuple[int, int], ...], tiles: int = 1, group: int = 1
) -> Instance:
    weights = tuple(1.0 + 0.5 * e for e in range(len(edges))) if kind.weighted else ()
    return Instance(n, sizes, edges, weights, kind.loss, kind.penalty, tiles, group, method=kind.method)


def fit_kinds(kinds: Sequence[Kind], also: Sequence[Instance] = ()) -> tuple[list[Fit], list[Count]]:
    """Count for all kinds in one process, and fit each; the counts of `also` come with it."""
    batches = [(grid(kind), held_out(kind)) for kind in kinds]
    counts = iter(count([*(one for seen, unseen in batches for one in [*seen, *unseen]), *also]))
    fits = []
    for kind, (seen, unseen) in zip(kinds, batches, strict=True):
        first = [(one, next(counts)) for one in seen]
        fits.append(_fit(kind, first, [(one, next(counts)) for one in unseen]))
    return fits, list(counts)


Counted = list[tuple[Instance, Count]]
Reading = Callable[[Count, int], int]


def _fit(kind: Kind, seen: Counted, unseen: Counted) -> Fit:
    wrong: list[str] = []
    everyone, first, rest = (lambda j: True), (lambda j: j == 0), (lambda j: j > 0)

    def fitted(name: str, phase: str, who: Callable[[int], bool], doubled: bool = False) -> Polynomial | None:
        def reading(found: Count, j: int) -> int:
            return int((found.doublings if doubled else found.operations)(phase)[j])

        return _one(kind, name, reading, who, seen, unseen, wrong)

    phases = {phase: fitted(phase, phase, everyone) for phase in FITTED}
    phases["dual"] = fitted("dual", "dual", first) if kind.loss == "squared" else None
    phases["average_first"] = fitted("average of agent 1", "average", first)
    phases["average"] = phases["average_first"] if kind.single else fitted("average", "average", rest)
    doubled = {phase: fitted(f"doublings of {phase}", phase, everyone, True) for phase in PAPER}
    unowned = sum(found.unowned for _, found in [*seen, *unseen])
    if unowned:
        wrong.append(f"{unowned} operations belong to no agent.")
    steps = [step for _, found in [*seen, *unseen] for step in found.dual_steps]
    return Fit(kind, phases, doubled, len(_points(seen)), len(_points(unseen)), steps, wrong)


def _points(counted: Counted) -> set[Point]:
    return {(i.n, d, g) for i, _ in counted for d, g in zip(i.sizes, i.degrees(), strict=True)}


def _one(
    kind: Kind,
    name: str,
    reading: Reading,
    who: Callable[[int], bool],
    seen: Counted,
    unseen: Counted,
    wrong: list[str],
) -> Polynomial | None:
    """The polynomial of one reading of the counts, tested on those that were held out."""
    values: dict[Point, int] = {}
    for point, value in _readings(seen, reading, who):
        if values.setdefault(point, value) != value:
            wrong.append(f"{name}: {values[point]} and {value} operations at the same (n, d_j, deg_j) = {point}.")
            return None
    polynomial = fit(list(values), list(values.values()), single=kind.single)
    if polynomial is None:
        wrong.append(f"{name}: the counts are no polynomial of degree three.")
        return None
    for point, value in _readings(unseen, reading, who):
        if polynomial(*point) != value:
            wrong.append(f"{name}: {value} operations at (n, d_j, deg_j) = {point}, not {polynomial(*point)}.")
    return polynomial


def _readings(counted: Counted, reading: Reading, who: Callable[[int], bool]) -> list[tuple[Point, int]]:
    found = []
    for instance, one in counted:
        degrees = instance.degrees()
        for j in filter(who, range(instance.agents)):
            found.append(((instance.n, instance.sizes[j], degrees[j]), reading(one, j)))
    return found

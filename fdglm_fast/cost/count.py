"""The counting process: `NUMBA_DISABLE_JIT=1 python -m fdglm_fast.cost.count`, instances in and counts out as JSON.

The solver's own code runs, as plain Python on arrays of counting numbers: `kernels.iterate` and everything below it.
Numba reads at its import whether the JIT is off, hence a process of its own; see `counter.py` for the caller.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.counting import NOBODY, Ledger, Number
from fdglm_fast.cost.instance import PHASES, Instance
from fdglm_fast.cost.phases import install
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.course import steady
from fdglm_fast.kernels.iterate import iterate_agents, iterate_tiles
from fdglm_fast.losses import parse_loss
from fdglm_fast.network import Network
from fdglm_fast.penalties import BOX, GROUP_L2, parse_penalty

Objects = npt.NDArray[np.object_]
# A box so wide, and a group penalty so light, that no proximal map takes a short way out: counts are of the long way.
# The others cost the same for every number, and are heavy enough to set some coefficients to zero.
WIDE, LIGHT, HEAVY = 1e6, 1e-3, 1.0


class Maker:
    """Arrays of counting numbers with random values."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.ledger, self.random = ledger, random.Random(seed)

    def constant(self, value: float) -> Any:
        """A constant; the kernels' tuples take it for a float."""
        return Number(float(value), self.ledger, constant=True)

    def constants(self, values: Any) -> Objects:
        out = np.empty(len(values), object)
        out[:] = [self.constant(value) for value in values]
        return out

    def variables(self, shape: tuple[int, ...], owners: Any) -> Objects:
        """Values from 0.1 to 0.9 with random signs; `owners`, one for each place, are repeated along the last axes."""
        out = np.empty(shape, object)
        whose = np.broadcast_to(owners, shape)
        for place in np.ndindex(shape):
            value = self.random.choice((-1.0, 1.0)) * self.random.uniform(0.1, 0.9)
            out[place] = Number(value, self.ledger, int(whose[place]))
        return out

    def responses(self, labels: str, shape: tuple[int, int]) -> Objects:
        choose = {
            "real": lambda: self.random.uniform(-1.0, 1.0),
            "binary": lambda: self.random.choice((-1.0, 1.0)),
            "count": lambda: float(self.random.randrange(4)),
        }[labels]
        return self.constants([choose() for _ in range(shape[0] * shape[1])]).reshape(shape)


def neighbours(instance: Instance, make: Maker) -> Neighbours:
    """Each neighbour by itself, as the paper counts, or the solver's plan, in constants."""
    m = instance.agents
    edges = np.array(instance.edges, np.int64).reshape(-1, 2)
    weights = np.array(instance.weights or [1.0] * len(edges), np.float64)
    network = Network(m, edges, weights)
    if instance.plan == "solver":
        from fdglm_fast.neighbours import plan_neighbours

        near = plan_neighbours(network, np.float64).near
        return near._replace(degree=make.constants(near.degree), weights=make.constants(near.weights))
    adjacency = network.adjacency()
    none = np.zeros(0, np.int32)
    return Neighbours(
        make.constants(network.weighted_degrees),
        np.zeros(m, np.bool_),
        adjacency.indptr.astype(np.int64),
        adjacency.indices.astype(np.int32),
        make.constants(adjacency.data if instance.weights else []),
        np.zeros(m + 1, np.int64),
        none,
        np.zeros(1, np.int64),
        none,
    )


def model(instance: Instance, make: Maker, owner: npt.NDArray[np.int64]) -> Model:
    """The loss and the penalty; the columns of an agent are one group."""
    loss, penalty = parse_loss(instance.loss), parse_penalty(instance.penalty)
    a, b = (-WIDE, WIDE) if penalty.code == BOX else (penalty.a, penalty.b)
    groups = owner if penalty.code == GROUP_L2 else np.zeros(0, np.int64)
    weight = LIGHT if penalty.code == GROUP_L2 else HEAVY
    k, reg, low, high = (make.constant(value) for value in (loss.parameter, weight, a, b))
    norms = np.empty((3, instance.agents), object)
    return Model(instance.n, loss.code, k, penalty.code, reg, low, high, groups, norms)


def state(instance: Instance, make: Maker, owner: npt.NDArray[np.int64], sums: int) -> State:
    """Iterates in the middle of a run. Scratch holds nothing: reading it before it is written fails."""
    tiles, m, d = instance.tiles, instance.agents, len(owner)
    B = instance.n // tiles
    slots = tiles if instance.schedule == "agents" else 1
    several, anchors = m if m > 1 else 0, int(instance.method == "fast")
    agents = np.arange(m)[:, None]
    return State(
        theta=make.variables((d,), owner),
        theta_out=make.variables((d,), owner),
        g=make.variables((d,), owner),
        v=make.variables((tiles, several, B), agents[:several]),
        lam=make.variables((tiles, m, B), agents),
        lam_out=make.variables((tiles, B), 0),
        theta_anchor=make.variables((d * anchors,), owner if anchors else ()),
        p_anchor=make.variables((tiles, several * anchors, B), agents[: several * anchors]),
        lam_anchor=make.variables((tiles, m * anchors, B), agents[: m * anchors]),
        common=make.constants([0.1] * (tiles * anchors * B)).reshape(tiles, anchors, B),
        w=np.empty(d, object),
        partial=np.empty((-(-tiles // instance.group), d), object),
        u=np.empty((slots, several, B), object),
        q=np.empty((slots, several, B), object),
        front=np.empty((slots, 2, B), object),
        pool=np.empty((slots, sums, B), object),
        line=np.empty((1, 1, B), object),
        moves=np.empty((0, m, 3), object),
    )


def count(instance: Instance, ledger: Ledger) -> None:
    """Run the instance's iterations on counting numbers."""
    if instance.n % instance.tiles:
        raise ValueError(f"{instance.n} samples do not fill {instance.tiles} tiles")
    make = Maker(ledger, instance.seed)
    offsets = np.concatenate([[0], np.cumsum(instance.sizes)]).astype(np.int64)
    owner = np.repeat(np.arange(instance.agents), instance.sizes)
    B = instance.n // instance.tiles
    near = neighbours(instance, make)
    tiles = Tiles(
        make.variables((instance.tiles, len(owner), B), owner[:, None]),
        make.responses(parse_loss(instance.loss).labels, (instance.tiles, B)),
        instance.n,
        instance.group,
    )
    tau, t, s = make.constant(0.3), make.constant(0.2), make.constants([0.1] * instance.agents)
    fast = instance.method == "fast"
    mixed = fast and instance.agents > 1
    joined = [0.0] * instance.agents
    for (a, b), weight in zip(instance.edges, instance.weights or [1.0] * len(instance.edges), strict=True):
        if 0 in (a, b):
            joined[max(a, b)] = weight
    steps = Steps(
        tau,
        t,
        np.arange(instance.agents),
        s,
        first=s[0],
        fast=fast,
        gain=make.constant(1.5),
        pull=make.constant(0.25),
        scale=make.constants([0.5] * len(owner) if fast else []),
        mix=make.constants([0.02] * instance.agents if mixed else []),
        hears=np.array(joined if mixed else []) > 0.0,
        joined=make.constants(joined if mixed else []),
        shift=make.constant(0.4),
        stretch=0,
    )
    now = state(instance, make, owner, len(near.part_start) - 1)
    kernel = iterate_agents if instance.schedule == "agents" else iterate_tiles
    kernel(instance.iterations, tiles, offsets, near, model(instance, make, owner), steps, steady(np.float64), now)


def tabulate(ledger: Ledger, agents: int) -> dict[str, Any]:
    """The ledger as `Count` takes it."""
    kinds: dict[str, dict[str, list[int]]] = {phase: {} for phase in PHASES}
    unowned = 0
    for (phase, agent, kind), operations in ledger.counts.items():
        if agent == NOBODY:
            unowned += operations
        else:
            kinds[phase].setdefault(kind, [0] * agents)[agent] += operations
    return {"agents": agents, "kinds": kinds, "unowned": unowned}


def main() -> None:
    ledger = Ledger()
    dual_steps: list[int] = []
    install(ledger, dual_steps)
    answers = []
    for given in json.load(sys.stdin):
        instance = Instance.from_json(given)
        ledger.counts.clear()
        dual_steps.clear()
        count(instance, ledger)
        answers.append({**tabulate(ledger, instance.agents), "dual_steps": list(dual_steps)})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()

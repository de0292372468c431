"""What a checkpoint belongs to: two runs with the same identity have the same iterates, on whatever engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fdglm_fast import __version__
from fdglm_fast.network import Network
from fdglm_fast.team import Team


def identity(
    team: Team, network: Network, method: str, gossip: int, steps: Mapping[str, float | str]
) -> dict[str, Any]:
    """Data, network, model, steps, type and version."""
    problem = team.whole
    return {
        "version": __version__,
        "data": data_hash(team),
        "graph": network_hash(network),
        "agents": problem.agents,
        "loss": problem.loss.spec,
        "penalty": problem.penalty.spec,
        "reg": problem.penalty.reg,
        "type": problem.dtype.name,
        "method": method,
        "gossip": gossip,
        **steps,
    }


def data_hash(team: Team) -> str:
    """SHA-256 of the agents' own hashes, in the order of the agents."""
    mine = {int(j): _agent_hash(team, here, int(j)) for here, j in enumerate(team.members)}
    every: dict[int, str] = {}
    for part in team.collect("hashes of the data", mine):
        every.update(part)
    return hashlib.sha256(" ".join(every[j] for j in sorted(every)).encode()).hexdigest()


def _agent_hash(team: Team, here: int, j: int) -> str:
    """SHA-256 of what agent j's iterates depend on: its tiles and columns, their groups, and y where it is agent 1."""
    own = team.own
    start, stop = own.partition.offsets[here], own.partition.offsets[here + 1]
    digest = hashlib.sha256(f"{own.n} {own.tiles.rows} {own.dtype.str} {stop - start}".encode())
    groups = np.zeros(0, np.int64) if own.groups is None else own.groups[start:stop]
    parts = [team.whole.partition.columns(j), np.unique(groups, return_inverse=True)[1].astype(np.int64)]
    for array in [own.tiles.X[:, start:stop], *parts, *([own.tiles.y] if j == 0 else [])]:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def network_hash(network: Network) -> str:
    """SHA-256 of the vertices, edges and weights."""
    digest = hashlib.sha256(str(network.agents).encode())
    digest.update(np.ascontiguousarray(network.edges, dtype="<i8").data)
    digest.update(np.ascontiguousarray(network.weights, dtype="<f8").data)
    return digest.hexdigest()

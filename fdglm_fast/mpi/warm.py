"""A tiny problem through every kernel of the ranks, on this process alone: compiles what is not in the cache yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fdglm_fast.mpi.placement import place_agents
from fdglm_fast.mpi.split import split
from fdglm_fast.mpi.team import RankTeam
from fdglm_fast.network import build_network
from fdglm_fast.problem import Problem
from fdglm_fast.solver import Options, solve_team


def warm(dtype: npt.DTypeLike) -> None:
    from mpi4py import MPI

    problem = Problem.from_arrays(np.eye(4, dtype=dtype), np.ones(4), agents=2, penalty="l2", reg=1.0)
    network = build_network("path", 2)
    placement = place_agents(network, problem.partition.sizes, 1)
    team = RankTeam(MPI.COMM_SELF, placement, *split(problem, placement, 0))
    solve_team(team, network, None, Options(iterations=1))
    solve_team(team, network, None, Options(method="fast", iterations=20, tol=1e-30))  # long enough to restart

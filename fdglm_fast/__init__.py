"""Generalized linear models whose features are split among the agents of a network.

    from fdglm_fast import Problem, build_network, solve

    problem = Problem.from_arrays(X, y, agents=16, loss="huber:1.5", penalty="l1", reg=0.1)
    result = solve(problem, build_network("rgg", 16, seed=0))
    result.theta_average

Names are imported when they are first used: `import fdglm_fast` alone loads neither Numba nor SciPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fdglm_fast.errors import DataError, FdglmError, NumericalError, UsageError
    from fdglm_fast.job import Job, Outcome, run
    from fdglm_fast.losses import Loss, parse_loss
    from fdglm_fast.network import Network, build_network
    from fdglm_fast.partition import Partition
    from fdglm_fast.penalties import Penalty, parse_penalty
    from fdglm_fast.problem import Problem
    from fdglm_fast.reference import Reference, solve_reference
    from fdglm_fast.solver import Options, Result, solve
    from fdglm_fast.steps import Given, StepSizes

__version__ = "0.1.0"

_HOMES = {
    "errors": ("DataError", "FdglmError", "NumericalError", "UsageError"),
    "job": ("Job", "Outcome", "run"),
    "losses": ("Loss", "parse_loss"),
    "network": ("Network", "build_network"),
    "partition": ("Partition",),
    "penalties": ("Penalty", "parse_penalty"),
    "problem": ("Problem",),
    "reference": ("Reference", "solve_reference"),
    "solver": ("Options", "Result", "solve"),
    "steps": ("Given", "StepSizes"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "DataError",
    "FdglmError",
    "Given",
    "Job",
    "Loss",
    "Network",
    "NumericalError",
    "Options",
    "Outcome",
    "Partition",
    "Penalty",
    "Problem",
    "Reference",
    "Result",
    "StepSizes",
    "UsageError",
    "build_network",
    "parse_loss",
    "parse_penalty",
    "run",
    "solve",
    "solve_reference",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fdglm_fast' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"fdglm_fast.{_HOME[name]}"), name)
    globals()[name] = value
    return value

"""The benchmark of methods: which problems, on which networks, and how a problem is made."""

from __future__ import annotations

import re
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from fdglm_fast.problem import Problem
    from fdglm_fast.reference import Reference

Array = npt.NDArray[np.float64]

# 256 agents need a column each; with twice as many samples as features least squares is well posed but not easy.
SAMPLES, FEATURES = 512, 256
ITERATIONS = 20_000
AGENTS = (16, 64, 256)
GRAPHS = ("star", "lattice", "rgg", "er:0.1", "complete", "ring")
SEEDS = (0, 1, 2)
METHODS = ("paper", "fast", "fixed")  # fixed: fast with the weight between primal and dual held at one
CORRELATION = 0.9
SPREAD = 1.5  # badly scaled columns: factors from 10^-SPREAD to 10^SPREAD, evenly in the logarithm, at random
DESIGNS = ("gaussian", "correlated", "scaled")


@dataclass(frozen=True)
class Model:
    """A loss with a penalty; `share` is of the least weight of l1 that makes theta zero, `reg` the weight itself."""

    loss: str
    penalty: str = "none"
    reg: float = 0.0
    share: float | None = None
    sparse: bool = False


MODELS = {
    "least-squares": Model("squared"),
    "lasso": Model("squared", "l1", share=0.1, sparse=True),
    "elastic-net": Model("squared", "elastic-net:0.5", share=0.1, sparse=True),
    "logistic": Model("logistic", "l2", reg=0.01),
    "huber": Model("huber:1.345"),
}


@dataclass(frozen=True)
class Size:
    """What a user may make smaller for a trial."""

    samples: int = SAMPLES
    features: int = FEATURES
    iterations: int = ITERATIONS


@dataclass(frozen=True)
class Task:
    """One problem: all its networks are run by one process, so that it is made and solved centrally once."""

    model: str
    design: str
    seed: int

    @property
    def label(self) -> str:
        return f"{self.model}, {self.design}, seed {self.seed}"


@dataclass(frozen=True)
class Case:
    """One run: a problem on a network by a method; the seed draws the data and the network."""

    model: str
    design: str
    graph: str
    agents: int
    seed: int
    method: str

    @property
    def file_name(self) -> str:
        words = (self.model, self.design, self.graph, f"m{self.agents}", f"seed{self.seed}", self.method)
        return "_".join(re.sub(r"[^A-Za-z0-9.]+", "-", word) for word in words) + ".json"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def cases_of(task: Task, agents: tuple[int, ...], graphs: tuple[str, ...], methods: tuple[str, ...]) -> list[Case]:
    """The runs of a task; the methods of a network follow each other, so that all meet the same machine."""
    return [Case(task.model, task.design, g, m, task.seed, how) for m in agents for g in graphs for how in methods]


@dataclass(frozen=True, eq=False)
class Ready:
    """A problem of one agent in memory, compressed where that is exact, with ||X|| and the centralised answer."""

    problem: Problem
    reference: Reference


def make_problem(task: Task, size: Size) -> Ready:
    """Draw the data as `fdglm generate` does, scale the columns where the design asks for it, solve centrally."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from fdglm_fast.compress import compress
    from fdglm_fast.norms import design_norm
    from fdglm_fast.problem import Problem
    from fdglm_fast.reference import solve_reference
    from fdglm_fast.team import Team

    model = MODELS[task.model]
    X, y = _draw(task, model, size)
    reg = model.reg if model.share is None else model.share * float(np.abs(X.T @ y).max()) / len(y)
    with threadpool_limits(1, user_api="blas"):
        problem = Problem.from_arrays(X, y, loss=model.loss, penalty=model.penalty, reg=reg)
        reference = solve_reference(problem.dense(), problem.response, problem.loss, problem.penalty)
        if model.loss == "squared":
            problem = compress(problem)
        return Ready(replace(problem, norm=design_norm(Team(problem))), reference)


def _draw(task: Task, model: Model, size: Size) -> tuple[Array, Array]:
    import h5py

    from fdglm_fast.generate import generate

    with tempfile.TemporaryDirectory(prefix="fdglm-bench-") as folder:
        path = Path(folder) / "data.h5"
        generate(
            path,
            size.samples,
            size.features,
            loss=model.loss,
            sparsity=max(1, size.features // 8) if model.sparse else None,
            correlation=CORRELATION if task.design == "correlated" else 0.0,
            seed=task.seed,
        )
        with h5py.File(path, "r") as file:
            X, y = np.asarray(file["X"][...]), np.asarray(file["y"][...])
    if task.design == "scaled":
        rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(1,)))
        X = X * 10.0 ** rng.uniform(-SPREAD, SPREAD, X.shape[1])
    return X, y

"""Model, counted and executed operations of every agent at full size, phase by phase.

model      the closed forms of `model.py`
counted    counting numbers: the fitted polynomials, evaluated for the n, d_j and deg_j of each agent
executed   the tally of the compiled kernels, which form some neighbour sums once for several agents and compute with
           the samples that fill up the last tile; agent 1's dual step and the running sums are not tallied
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.executed import Executed
from fdglm_fast.cost.fitting import Fit, Kind
from fdglm_fast.cost.instance import PAPER
from fdglm_fast.cost.model import answer_model, dual_model, phase_model
from fdglm_fast.cost.polynomial import Polynomial
from fdglm_fast.cost.setting import Setting

Agents = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Figures:
    """Operations of one iteration, one number an agent. What is not known is missing from the dictionaries.

    `counted` has the phases of the model and `dual`, `average`; `doublings` what comes on top where doubling is an
    operation. `dual_exact` is False where agent 1's dual step depends on the data and its count is a mean.
    """

    model: dict[str, Agents]
    counted: dict[str, Agents]
    doublings: dict[str, Agents]
    executed: dict[str, Agents]
    shared: int | None
    dual_exact: bool

    def table(self, agent: int | None = None) -> dict[str, dict[str, int | None]]:
        """The phases of one agent, or of all together; `total` is theta, v and lambda, as in the paper's formula."""
        rows = {phase: self._row(phase, agent) for phase in PAPER}
        if agent is None and self.shared is not None:
            rows["shared"] = _differences({"model": None, "counted": None, "doublings": None, "executed": self.shared})
        rows["total"] = _differences({key: _add([row[key] for row in rows.values()]) for key in COLUMNS})
        for phase in ("dual", "average"):
            if agent in (None, 0) or phase == "average":
                rows[phase] = self._row(phase, agent)
        return rows

    def _row(self, phase: str, agent: int | None) -> dict[str, int | None]:
        def read(source: dict[str, Agents]) -> int | None:
            if phase not in source:
                return None
            return int(source[phase].sum() if agent is None else source[phase][agent])

        return _differences({key: read(getattr(self, key)) for key in COLUMNS})


COLUMNS = ("model", "counted", "doublings", "executed")


def _differences(row: dict[str, int | None]) -> dict[str, int | None]:
    def minus(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else a - b

    model, counted = row["model"], row["counted"]
    return {
        **row,
        "counted_minus_model": minus(counted, model),
        "counted_with_doublings": None if counted is None else counted + (row["doublings"] or 0),
        "executed_minus_model": minus(row["executed"], model),
    }


def _add(values: list[int | None]) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def kind_of(setting: Setting) -> Kind:
    """What decides about the setting's polynomials."""
    return Kind(setting.penalty.spec, setting.loss.spec, setting.weighted, setting.single, setting.method)


def model_figures(setting: Setting) -> dict[str, Agents]:
    """The closed forms for every agent; `dual` where there is one for the loss."""
    name = setting.penalty.name

    def spent(d_j: int, degree: int) -> list[int]:
        flags: Any = {"prox": name != "none", "weighted": setting.weighted, "single": setting.single}
        found = phase_model(setting.n, d_j, degree, penalty=name, method=setting.method, **flags)
        return [found[phase] for phase in PAPER]

    table = each_agent(setting, spent)
    found = dict(zip(PAPER, table.T, strict=True))
    dual = dual_model(setting.n, setting.loss.name)
    if dual is not None:
        found["dual"] = _only_first(setting, dual + _answer(setting))
    return found


def _answer(setting: Setting) -> int:
    """What the late vector of agent 1 costs in the fast method."""
    return answer_model(setting.n, int(setting.degrees[0])) if setting.method == "fast" else 0


def figures(setting: Setting, fit: Fit, done: Executed | None) -> Figures:
    """Everything that is known about an iteration of the setting."""
    counted, doubled = _evaluate(setting, fit.phases, (*PAPER, "average")), _evaluate(setting, fit.doublings, PAPER)
    first = fit.phases["average_first"]
    if first is not None and "average" in counted:
        counted["average"][0] = int(first(setting.n, int(setting.sizes[0]), int(setting.degrees[0])))
    dual = fit.phases["dual"]
    if dual is not None:
        counted["dual"] = _only_first(setting, int(dual(setting.n, 1, int(setting.degrees[0]))))
    elif fit.dual_steps:
        each = sum(fit.dual_steps) / len(fit.dual_steps)
        counted["dual"] = _only_first(setting, round(setting.n * each) + _answer(setting))
    return Figures(
        model_figures(setting),
        counted,
        doubled,
        done.phases if done else {},
        done.shared if done else None,
        dual is not None,
    )


def each_agent(setting: Setting, evaluate: Callable[[int, int], Any]) -> npt.NDArray[Any]:
    """A function of d_j and deg_j for all agents, evaluated once for each pair that occurs."""
    pairs, which = np.unique(np.stack([setting.sizes, setting.degrees], axis=1), axis=0, return_inverse=True)
    return np.array([evaluate(int(d_j), int(degree)) for d_j, degree in pairs])[which.reshape(-1)]


def _evaluate(
    setting: Setting, polynomials: dict[str, Polynomial | None], phases: tuple[str, ...]
) -> dict[str, Agents]:
    known = {phase: polynomials[phase] for phase in phases}
    return {phase: _at_full_size(setting, p) for phase, p in known.items() if p is not None}


def _at_full_size(setting: Setting, polynomial: Polynomial) -> Agents:
    return each_agent(setting, lambda d_j, degree: int(polynomial(setting.n, d_j, degree)))


def _only_first(setting: Setting, operations: int) -> Agents:
    found = np.zeros(setting.agents, np.int64)
    found[0] = operations
    return found

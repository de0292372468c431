"""Whether counted and modelled operations agree to the last one, at full size and outright on a small instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fdglm_fast.cost.figures import Agents, Figures, kind_of
from fdglm_fast.cost.fitting import Fit, fit_kinds
from fdglm_fast.cost.instance import PAPER, Count, Instance
from fdglm_fast.cost.model import answer_model, dual_model, phase_model
from fdglm_fast.cost.polynomial import Polynomial
from fdglm_fast.cost.setting import Setting

ROWS = 2  # samples of the small instance: two, so that sums over samples have something to add
MOST = 500_000  # operations to count outright; more takes seconds


@dataclass(frozen=True, eq=False)
class Verdict:
    """What was compared and the sentences that say where it differs; none of them means that all is equal."""

    full_size: int  # agents compared at full size
    instance: Instance
    differences: list[str]

    @property
    def passed(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "agents_at_full_size": self.full_size,
            "counted_outright": {
                "n": self.instance.n,
                "d": sum(self.instance.sizes),
                "agents": self.instance.agents,
                "edges": len(self.instance.edges),
            },
            "differences": self.differences,
        }


def count_and_fit(setting: Setting) -> tuple[Fit, Instance, Count]:
    """The polynomials for a setting, and an outright count on a small instance of it."""
    instance = small_instance(setting)
    fits, counts = fit_kinds([kind_of(setting)], [instance])
    return fits[0], instance, counts[0]


def small_instance(setting: Setting) -> Instance:
    """The setting's own network and columns with two samples; a ring with chords where that would take too long."""
    what: Any = {"loss": setting.loss.spec, "penalty": setting.penalty.spec, "method": setting.method}
    sizes, edges = setting.sizes, setting.network.edges
    if ROWS * (4 * setting.d + 8 * len(edges) + 7 * setting.agents) <= MOST:
        weights = tuple(float(w) for w in setting.network.weights) if setting.weighted else ()
        pairs = tuple((int(i), int(j)) for i, j in edges)
        return Instance(ROWS, tuple(int(d) for d in sizes), pairs, weights, **what)
    if setting.single:
        return Instance(ROWS, (10_000,), **what)
    pairs = tuple(
        sorted({(min(j, k), max(j, k)) for j in range(12) for k in ((j + 1) % 12, (j * j + 5) % 12) if j != k})
    )
    weights = tuple(1.0 + 0.1 * e for e in range(len(pairs))) if setting.weighted else ()
    return Instance(ROWS, tuple(1 + j % 5 for j in range(12)), pairs, weights, **what)


def check(setting: Setting, fit: Fit, found: Figures, instance: Instance, counted: Count) -> Verdict:
    """Compare, under the paper's convention (doubling is free)."""
    differences = list(fit.wrong)
    other = fit.phases["other"]
    if other is not None and other != Polynomial({}):
        differences.append(f"{other} operations are done outside of the phases.")
    for phase in (*PAPER, "dual"):
        if phase in found.model and phase in found.counted:
            _compare(f"{phase}, n = {setting.n}", found.model[phase], found.counted[phase], differences)
        elif phase in found.model:
            differences.append(f"{phase}: there is no polynomial to compare with.")
    _outright(setting, instance, counted, differences)
    return Verdict(setting.agents, instance, differences)


def _outright(setting: Setting, instance: Instance, counted: Count, differences: list[str]) -> None:
    name = setting.penalty.name
    flags: Any = {
        "method": setting.method,
        "prox": name != "none",
        "weighted": bool(instance.weights),
        "single": instance.agents == 1,
    }
    agents = zip(instance.sizes, instance.degrees(), strict=True)
    model = [phase_model(instance.n, d, degree, penalty=name, **flags) for d, degree in agents]
    for phase in PAPER:
        expected = np.array([one[phase] for one in model], np.int64)
        _compare(f"{phase}, counted outright", expected, counted.operations(phase), differences)
    dual = dual_model(instance.n, setting.loss.name)
    if dual is not None:
        expected = np.zeros(instance.agents, np.int64)
        late = answer_model(instance.n, instance.degrees()[0]) if setting.method == "fast" else 0
        expected[0] = dual + late
        _compare("dual, counted outright", expected, counted.operations("dual"), differences)
    outside = int(counted.operations("other").sum()) + counted.unowned
    if outside:
        differences.append(f"{outside} operations are done outside of the phases, counted outright.")


def _compare(what: str, model: Agents, counted: Agents, differences: list[str]) -> None:
    apart = np.flatnonzero(model != counted)
    if apart.size:
        j = int(apart[0])
        rest = f", and so for {apart.size - 1} more" if apart.size > 1 else ""
        differences.append(f"{what}: agent {j + 1} does {counted[j]} operations, the model says {model[j]}{rest}.")

"""The counter runs the kernels' own code; and the kernels' own tally agrees with it, phase by phase."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fdglm_fast.cost.counter import CountingError, count
from fdglm_fast.cost.derive import CASES, derive
from fdglm_fast.cost.executed import executed, tally
from fdglm_fast.cost.figures import figures, kind_of, model_figures
from fdglm_fast.cost.fitting import Fit, Kind, fit_kinds
from fdglm_fast.cost.instance import PAPER, PHASES, Instance
from fdglm_fast.cost.model import PROX, phase_model
from fdglm_fast.cost.setting import Setting, from_sizes
from fdglm_fast.losses import parse_loss
from fdglm_fast.neighbours import plan_neighbours
from fdglm_fast.network import Network, build_network
from fdglm_fast.penalties import parse_penalty

STAR = ((0, 1), (0, 2), (0, 3))
BASE = Instance(6, (2, 1, 3, 2), STAR)


def test_a_star_by_hand() -> None:
    found = count([BASE])[0]
    assert found.unowned == 0
    # Agent 1, n = 6, d_1 = 2, deg_1 = 3: dots 2 (2 6 - 1), scale and subtract 2 2, soft threshold 3 2.
    assert found.operations("theta")[0] == 22 + 4 + 6
    assert found.kinds["prox"] == {"-": [2, 1, 3, 2], "compare": [4, 2, 6, 4]}
    # Two additions, degree times lambda, minus, times t, minus.
    assert found.kinds["v"] == {"+": [12, 0, 0, 0], "*": [12] * 4, "-": [12] * 4}
    assert found.operations("dual").tolist() == [12, 0, 0, 0]
    assert found.kinds["dual"] == {"-": [6, 0, 0, 0], "/": [6, 0, 0, 0]}
    assert found.operations("average").tolist() == [2 + 6, 1, 3, 2]
    assert found.doublings("lambda").tolist() == [6 + 2, 6 + 1, 6 + 3, 6 + 2]
    assert found.operations("other").sum() == found.operations("shared").sum() == 0


def test_what_does_not_change_the_count() -> None:
    """How the samples are cut, the schedule, the numbers themselves; two iterations are twice one."""
    changed = [
        replace(BASE, tiles=3),
        replace(BASE, tiles=3, group=2),
        replace(BASE, tiles=6, group=6),
        replace(BASE, tiles=2, schedule="agents"),
        replace(BASE, seed=7),
        replace(BASE, iterations=2),
    ]
    first, *others = count([BASE, *changed])
    for k, other in enumerate(others):
        for phase in PHASES:
            assert (other.operations(phase) == first.operations(phase) * (1 + (k == 5))).all(), (k, phase)
            assert (other.doublings(phase) == first.doublings(phase) * (1 + (k == 5))).all()


PENALTIES = ("none", "l1", "l2", "elastic-net:0.3", "group-l2", "nonneg", "box:0:1")


@cache
def _fits() -> dict[str, Fit]:
    """All at once: the counting process takes a second to start."""
    return dict(zip(PENALTIES, fit_kinds([Kind(penalty=penalty) for penalty in PENALTIES])[0], strict=True))


def test_a_coefficient_that_becomes_zero_costs_the_same() -> None:
    for penalty, each in (("l1", 3), ("elastic-net:0.3", 4)):
        found = count([Instance(1, (400,), penalty=penalty)])[0]
        assert found.operations("theta").tolist() == [400 * (2 + 1 + each)]
        assert found.doublings("lambda").tolist() == [400]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_proximal_maps_cost_what_the_model_says(penalty: str) -> None:
    fit = _fits()[penalty]
    assert not fit.wrong
    name = penalty.partition(":")[0]
    assert name in PROX
    for n, d, degree in [(1, 1, 1), (9, 4, 3)]:
        model = phase_model(n, d, degree, prox=name != "none", weighted=False, single=False, penalty=name)
        assert {phase: fit.phases[phase](n, d, degree) for phase in PAPER} == model  # type: ignore[misc]


DUAL_STEPS = {  # the least and the most operations of a sample
    "squared": (2, 2),
    "huber:0.1": (3, 4),
    "absolute": (2, 3),
    "quantile:0.3": (2, 3),
    "hinge": (3, 5),
    "squared-hinge": (4, 5),
    "logistic": (20, 300),
    "poisson": (15, 200),
}


def test_dual_steps() -> None:
    counts = count([Instance(40, (1, 1), ((0, 1),), loss=loss) for loss in DUAL_STEPS])
    for (loss, (least, most)), found in zip(DUAL_STEPS.items(), counts, strict=True):
        assert len(found.dual_steps) == 40
        assert least <= min(found.dual_steps) and max(found.dual_steps) <= most, loss
        assert found.operations("dual").tolist() == [sum(found.dual_steps), 0]
        assert found.operations("other").sum() == found.unowned == 0


def test_the_derivation_confirms_the_paper() -> None:
    found = {one.case.name: one for one in derive()}
    assert len(found) == len(CASES) == 5
    for one in found.values():
        assert one.confirmed(), one.as_json()
        assert one.fitted() == one.paper()
        assert all(part["difference"] == "0" for part in one.as_json()["coefficients"])
    texts = {name: one.as_json()["fitted"] for name, one in found.items()}
    assert texts == {
        "l1 penalty": "4 n d_j + 2 n deg_j + 7 n + 5 d_j",
        "no penalty: 3 d_j less": "4 n d_j + 2 n deg_j + 7 n + 2 d_j",
        "agent 1, squared loss: 2 n more": "4 n d_j + 2 n deg_j + 9 n + 5 d_j",
        "one agent": "4 n d_j + n + 5 d_j",
        "weighted edges: 2 n deg_j more": "4 n d_j + 4 n deg_j + 7 n + 5 d_j",
    }
    doublings = {one.as_json()["doublings"] for one in found.values()}
    assert doublings == {"n + d_j", "d_j"}


def test_an_instance_that_cannot_be_counted_is_a_sentence() -> None:
    with pytest.raises(CountingError, match="5 samples do not fill 2 tiles"):
        count([Instance(5, (1,), tiles=2)])


# --- the tally of the compiled kernels ---


def _setting(network: Network, n: int, d: int, penalty: str = "l1", reg: float = 0.1) -> Setting:
    return from_sizes(n, d, network, parse_loss("squared"), parse_penalty(penalty, reg))


def _instance(setting: Setting, n: int, **changed: int) -> Instance:
    network = setting.network
    edges = tuple((int(i), int(j)) for i, j in network.edges)
    weights = tuple(float(w) for w in network.weights) if setting.weighted else ()
    sizes = tuple(int(d) for d in setting.sizes)
    penalty = setting.penalty.spec
    return Instance(n, sizes, edges, weights, "squared", penalty, plan="solver", **changed)  # type: ignore[arg-type]


GRAPHS = [
    ("path", 2, "unit", ""),
    ("complete", 9, "unit", "complement"),
    ("star", 11, "unit", ""),
    ("er:0.8", 14, "unit", "complement"),
    ("rgg:0.5", 24, "unit", "shared"),
    ("lattice", 9, "metropolis", "weights"),
    ("complete", 1, "unit", ""),
]


@pytest.mark.parametrize(("spec", "m", "weights", "feature"), GRAPHS)
def test_the_tally_is_what_counting_numbers_count(spec: str, m: int, weights: str, feature: str) -> None:
    """The same plan of neighbour sums, on whole tiles: executed = counted, agent by agent and phase by phase."""
    setting = _setting(build_network(spec, m, seed=1, weights=weights), 64, 2 * m + 1)
    near = plan_neighbours(setting.network, np.float64).near
    assert near.complement.any() == (feature == "complement")
    assert (near.parts.size > 0) == (feature in ("complement", "shared"))
    assert (near.weights.size > 0) == (feature == "weights")
    noted = tally(setting, 64)
    counted = count([_instance(setting, 64, tiles=2)])[0]
    for phase in (*PAPER, "shared"):
        assert noted[phase].tolist() == counted.operations(phase).tolist(), phase
    assert counted.operations("other").sum() == counted.unowned == 0


@pytest.mark.parametrize(("penalty", "reg"), [("none", 0.0), ("l2", 0.1), ("elastic-net:0.5", 0.1), ("nonneg", 0.0)])
def test_the_tally_of_other_penalties(penalty: str, reg: float) -> None:
    setting = _setting(build_network("path", 3), 32, 7, penalty, reg)
    counted = count([_instance(setting, 32)])[0]
    assert tally(setting, 32)["theta"].tolist() == counted.operations("theta").tolist()


def test_the_tally_at_full_size_is_that_of_a_full_run() -> None:
    """More tiles than groups, the last one not full; and what counting numbers say of it."""
    n = 131 * 32 - 5  # 131 tiles, three in a group
    setting = _setting(build_network("path", 2), n, 3)
    found, full = executed(setting), tally(setting, n)
    assert found.padded_rows == 131 * 32
    counted = count([_instance(setting, 131 * 32, tiles=131, group=3)])[0]
    for phase in PAPER:
        assert found.phases[phase].tolist() == full[phase].tolist() == counted.operations(phase).tolist()


def test_executed_meets_the_model_where_neighbours_are_added_one_by_one() -> None:
    setting = _setting(build_network("ring", 7), 96, 15)
    found = executed(setting)
    model = model_figures(setting)
    assert found.shared == 0
    for phase in PAPER:
        assert found.phases[phase].tolist() == model[phase].tolist()


def test_tables_of_one_agent_and_of_all() -> None:
    setting = _setting(build_network("star", 5), 100, 12)
    found = figures(setting, fit_kinds([kind_of(setting)])[0][0], None)
    one, everyone = found.table(0), found.table()
    assert one["total"]["model"] == 100 * (4 * 3 + 2 * 4 + 7) + 5 * 3
    assert one["dual"]["counted"] == everyone["dual"]["model"] == 200
    assert "dual" not in found.table(1)
    assert everyone["total"]["counted_minus_model"] == 0
    assert everyone["total"]["counted"] == sum(100 * (4 * d + 2 * g + 7) + 5 * d for d, g in _pairs(setting))
    assert everyone["total"]["counted_with_doublings"] == everyone["total"]["counted"] + 5 * 100 + 12  # type: ignore[operator]
    assert everyone["total"]["executed"] is None and everyone["total"]["executed_minus_model"] is None
    assert everyone["average"]["counted"] == 12 + 100


def _pairs(setting: Setting) -> list[tuple[int, int]]:
    return [(int(d), int(g)) for d, g in zip(setting.sizes, setting.degrees, strict=True)]

"""The package against the oracle of naive.py: every loss, penalty and graph family, to 1e-12 of the largest entry."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specimens import LOSSES, PENALTIES, Specimen, gaussian_data, group_numbers, specimen

from fdglm_fast.engine import Engine
from fdglm_fast.neighbours import plan_neighbours
from fdglm_fast.network import Network, build_network
from fdglm_fast.problem import Problem
from fdglm_fast.solver import Options, solve
from fdglm_fast.steps import Given, StepSizes, choose_steps

TOLERANCE = 1e-12
ITERATIONS = 50
CHECKPOINTS = (1, 2, 19, ITERATIONS)
SCHEDULES = ("tiles", "agents")
WEIGHTED = "0 1 0.5\n1 2 2.0\n2 3 1.25\n3 4 0.3\n0 4 1.7\n1 4 0.9\n4 5 3.0\n"


class Graph(NamedTuple):
    spec: str
    agents: int
    weights: str = "unit"


GRAPHS = {
    "complete": Graph("complete", 5),
    "star": Graph("star", 6),
    "er": Graph("er:0.6", 7),
    "lattice": Graph("lattice", 6),
    "rgg": Graph("rgg:0.5", 7),
    "ring": Graph("ring", 5),
    "path": Graph("path", 4),
    "regular": Graph("regular:3", 8),
    "hypercube": Graph("hypercube", 8),
    "file": Graph("file", 6, "file"),
    "metropolis": Graph("er:0.5", 6, "metropolis"),
}


@functools.cache
def network_of(name: str, folder: Path) -> Network:
    spec, agents, weights = GRAPHS[name]
    if spec == "file":
        path = folder / "edges.txt"
        path.write_text(WEIGHTED)
        spec = f"file:{path}"
    return build_network(spec, agents, seed=3, weights=weights)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(autouse=True)
def fewer_halvings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle bisects 200 times; after 60 the interval is 1e-18 of what it was."""
    monkeypatch.setattr(naive, "HALVINGS", 60)


def assert_close(actual: Any, expected: Any, what: str, scale: float | None = None) -> None:
    """Equal to TOLERANCE times the largest entry that is expected, or times `scale`."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, what
    away = np.abs(actual - expected).max(initial=0.0)
    limit = np.abs(expected).max(initial=0.0) if scale is None else scale
    assert away <= TOLERANCE * limit, f"{what}: {away:.3g} away"


def by_agent(tiled: Any, n: int) -> Any:
    """Arrays (tiles, agents, B) of the engine as (agents, n) of the oracle; padding must be zero."""
    rows = np.moveaxis(tiled, 1, 0).reshape(tiled.shape[1], -1)
    assert not rows[:, n:].any()
    return rows[:, :n]


def steps_for(case: Specimen) -> StepSizes:
    """The package's steps, the tight ones, which move the iterates further in 50 iterations; R is 1."""
    return choose_steps(case.problem, case.network, Given(rule="tight", R=1.0), None)


def check_engine(case: Specimen, steps: StepSizes, records: list[naive.Record], schedule: str) -> None:
    """theta, its average, lambda and v of an engine, at some iterations on the way.

    A threshold leaves a theta of 1e-5 from one of 0.1, with the rounding of 0.1: at the iterations on the way theta is
    measured by the largest entry it comes to have, at the last one by its own.
    """
    problem = case.problem
    engine = Engine(problem, case.network, steps, schedule=schedule, threads=1)
    weight = plan_neighbours(case.network, np.float64).scale  # the engine keeps weight * v
    largest = float(np.abs([record.theta for record in records]).max())
    for t in (t for t in CHECKPOINTS if t <= len(records)):
        engine.advance(t - engine.iteration)
        expected, what = records[t - 1], f"{schedule}, iteration {t}"
        scale = largest if t < len(records) else None
        assert_close(problem.in_user_order(engine.last), expected.theta, f"theta, {what}", scale)
        assert_close(problem.in_user_order(engine.average), expected.theta_bar, f"theta_bar, {what}", scale)
        assert_close(by_agent(engine.state.lam, problem.n), expected.lam, f"lambda, {what}")
        if problem.agents > 1:
            assert_close(by_agent(engine.state.v, problem.n) / weight, expected.v, f"v, {what}")


def check_solve(case: Specimen, steps: StepSizes, records: list[naive.Record], schedule: str) -> None:
    """What `solve` returns and records, given the same steps."""
    given = Given(sigma=steps.sigma, tau=steps.tau, R=1.0)
    T = len(records)
    options = Options(iterations=T, record=f"every:{max(T // 2, 1)}", steps=given, schedule=schedule, threads=1)
    result = solve(case.problem, case.network, options=options)
    assert result.iterations == T
    assert_close(result.theta_last, records[-1].theta, "theta of solve")
    assert_close(result.theta_average, records[-1].theta_bar, "theta_bar of solve")
    X, y = case.X.tolist(), case.y.tolist()
    for record in result.trace:
        expected = records[record.iteration - 1]
        measured = [record.objective_average, record.objective_last]
        points = (expected.theta_bar, expected.theta)
        assert_close(measured, [naive.objective(X, y, p, case.loss, case.penalty) for p in points], "objective")


def check(case: Specimen, schedules: tuple[str, ...] = SCHEDULES, iterations: int = ITERATIONS) -> None:
    steps = steps_for(case)
    records = case.naive_run(steps.sigma, steps.tau, iterations)
    for schedule in schedules:
        check_engine(case, steps, records, schedule)
    check_solve(case, steps, records, schedules[0])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_penalty_and_graph(loss: str, penalty: str, graph: str, folder: Path) -> None:
    """11 columns divide by none of the numbers of agents; 35 samples leave a tile with 3 of them."""
    check(specimen(loss, penalty, network_of(graph, folder)))


@pytest.mark.parametrize("index", range(len(GRAPHS)), ids=list(GRAPHS))
def test_each_family_once(index: int, folder: Path) -> None:
    """What test_modes.py runs again without the JIT and with bounds checked: each loss, penalty and graph once."""
    losses, penalties, graphs = list(LOSSES), list(PENALTIES), list(GRAPHS)
    network = network_of(graphs[index], folder)
    check(specimen(losses[index % 8], penalties[index % 7], network), schedules=("tiles",), iterations=20)


def test_few_agents_by_the_agents_schedule() -> None:
    """For test_modes.py: the other schedule, with shared sums, without the JIT."""
    check(specimen("logistic", "l1", build_network("complete", 5)), schedules=("agents",), iterations=10)


@pytest.mark.parametrize("penalty", [name for name in PENALTIES if name != "none"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_cases_tell_penalties_apart(loss: str, penalty: str) -> None:
    """Otherwise the comparisons above would not notice a penalty that is ignored."""
    network = build_network("complete", 5)
    cases = [specimen(loss, name, network) for name in (penalty, "none")]
    steps = steps_for(cases[0])
    theta, plain = (np.array(case.naive_run(steps.sigma, steps.tau, ITERATIONS)[-1].theta) for case in cases)
    assert np.abs(theta - plain).max() > 1e-3 * np.abs(plain).max()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [2, 31, 32, 33, 64, 97])
def test_numbers_of_samples_around_whole_tiles(loss: str, n: int) -> None:
    check(specimen(loss, "l2", build_network("star", 4), shape=(n, 6)), iterations=25)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_one_agent(loss: str, penalty: str, schedule: str) -> None:
    """The single-agent baseline: v stays zero."""
    case = specimen(loss, penalty, build_network("complete", 1), shape=(37, 9))
    assert case.edges == []
    check(case, schedules=(schedule,))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_columns_scattered_among_agents(penalty: str) -> None:
    """Blocks of 1, 5, 3 and 2 columns that are nowhere contiguous; results are in the order of the columns."""
    owner = np.array([1, 3, 1, 2, 0, 1, 2, 1, 3, 1, 2])
    check(specimen("huber:0.7", penalty, build_network("ring", 4), owner=owner))


@pytest.mark.parametrize(("d", "m"), [(2, 2), (13, 13), (26, 3), (40, 2)])
def test_block_sizes_around_the_unrolled_loops(d: int, m: int) -> None:
    check(specimen("logistic", "elastic-net:0.3", build_network("path", m), shape=(20, d)), iterations=25)


class Plan(NamedTuple):
    """A network, and which ways of adding up neighbours its plan must use."""

    spec: str
    agents: int
    shared: bool
    complement: bool


@pytest.mark.parametrize(
    "plan",
    [
        Plan("complete", 14, shared=True, complement=True),
        Plan("er:0.85", 20, shared=True, complement=True),
        Plan("rgg:0.45", 24, shared=True, complement=False),
        Plan("star", 20, shared=False, complement=False),
    ],
    ids=lambda plan: plan.spec,
)
def test_shared_sums_and_complements(plan: Plan) -> None:
    network = build_network(plan.spec, plan.agents, seed=1)
    near = plan_neighbours(network, np.float64).near
    assert (near.shared.size > 0, bool(near.complement.any())) == (plan.shared, plan.complement)
    check(specimen("squared", "l1", network, shape=(9, plan.agents + 3)), iterations=30)


def test_a_weight_common_to_all_edges() -> None:
    """The weight then sits in the step of v, and the engine keeps weight * v."""
    ring = build_network("ring", 5)
    network = Network(5, ring.edges, np.full(5, 0.37))
    assert plan_neighbours(network, np.float64).scale == 0.37
    check(specimen("absolute", "none", network))


def test_theorem_steps() -> None:
    """sigma and tau of the default rule, which other tests leave aside, are those of the oracle."""
    case = specimen("squared", "none", build_network("lattice", 6))
    steps = choose_steps(case.problem, case.network, Given(R=2.0), None)
    spectrum = np.linalg.eigvalsh(np.array(naive.laplacian(6, case.edges)))
    chi = float(np.linalg.norm(case.X, 2))
    sigma, tau = naive.theorem_steps(35, 6, chi, float(spectrum[-1]), float(spectrum[1]), 2.0, np.sqrt(2.0))
    assert (steps.sigma, steps.tau) == pytest.approx((sigma, tau), rel=1e-9)
    check_solve(case, steps, case.naive_run(steps.sigma, steps.tau, ITERATIONS), "tiles")


# ------------------------------------------------------------------------------------- whole random problems


@st.composite
def networks(draw: st.DrawFn, m: int) -> Network:
    """A connected graph: a random tree and more edges; weights are one, all the same, or all different."""
    pairs = {(draw(st.integers(0, j - 1)), j) for j in range(1, m)}
    everyone = [(i, j) for j in range(m) for i in range(j)]
    if everyone:
        pairs |= set(draw(st.lists(st.sampled_from(everyone), max_size=2 * m)))
    edges = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    weight = st.floats(0.1, 4.0)
    kind = draw(st.sampled_from(["unit", "common", "different"]))
    if kind == "different":
        weights = np.array([draw(weight) for _ in pairs])
    else:
        weights = np.full(len(pairs), 1.0 if kind == "unit" else draw(weight))
    return Network(m, edges, weights)


@st.composite
def problems(draw: st.DrawFn) -> Specimen:
    n, d = draw(st.integers(2, 70)), draw(st.integers(1, 12))
    m = draw(st.integers(1, min(d, 7)))
    owner = np.array(draw(st.permutations([*range(m), *(draw(st.integers(0, m - 1)) for _ in range(d - m))])))
    network = draw(networks(m))
    loss, penalty = draw(st.sampled_from(list(LOSSES))), draw(st.sampled_from(list(PENALTIES)))
    k, reg = draw(st.floats(0.05, 0.95)), draw(st.floats(0.0, 1.0))
    told = LOSSES[loss] if ":" not in loss else (LOSSES[loss][0], k)
    X, y = gaussian_data(loss, n, d, seed=draw(st.integers(0, 10**6)), scale=10.0 ** draw(st.integers(-1, 1)))
    if loss == "poisson":
        X = X / np.abs(X).max()
    groups = group_numbers(owner)
    weighted = {"l1": ("l1", reg), "l2": ("l2", reg), "elastic-net:0.3": ("elastic-net", reg, 0.3)}
    r: naive.Spec = ("group-l2", reg, groups.tolist()) if penalty == "group-l2" else PENALTIES[penalty]
    r = weighted.get(penalty, r)
    problem = Problem.from_arrays(
        X,
        y,
        agents=m,
        owner=owner,
        loss=f"{told[0]}:{k}" if len(told) > 1 else loss,
        penalty=penalty,
        reg=reg if penalty in weighted or penalty == "group-l2" else 0.0,
        groups=groups,
    )
    return Specimen(X, y, problem, network, told, r)


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(case=problems(), R=st.floats(0.1, 10.0), schedule=st.sampled_from(SCHEDULES))
def test_random_problems(case: Specimen, R: float, schedule: str) -> None:
    steps = choose_steps(case.problem, case.network, Given(R=R), None)
    records = case.naive_run(steps.sigma, steps.tau, 20)
    check_engine(case, steps, records, schedule)
    check_solve(case, steps, records, schedule)

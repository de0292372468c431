"""Whole runs of the fast method: answers of other libraries, the same bits everywhere, costs, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdglm_fast.cost.model import phase_model
from fdglm_fast.cost.run import Effort, run_cost
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.gossip import gossip
from fdglm_fast.halpern import FastEngine, Period
from fdglm_fast.kernels.arrays import most_threads
from fdglm_fast.kernels.period import (
    CHANGE,
    CHECK,
    DUE,
    ITERATIONS,
    LAST,
    LEAP,
    SHARE,
    TRIAL,
    K,
    is_trusted,
    look,
    next_weight,
    restart,
)
from fdglm_fast.kernels.period import FIRST as FIRST_R
from fdglm_fast.local_steps import FIRST, POOR, LocalSteps, local_steps
from fdglm_fast.network import build_network
from fdglm_fast.options import Given
from fdglm_fast.problem import Problem
from fdglm_fast.reference import solve_reference
from fdglm_fast.solver import Options, Result, solve
from fdglm_fast.stopping import StopReason
from fdglm_fast.team import Team

RNG = np.random.default_rng(7)
X = RNG.standard_normal((90, 12))
THETA = RNG.standard_normal(12)
Y = X @ THETA + 0.3 * RNG.standard_normal(90)
LABELS = np.where(np.median(Y) < Y, 1.0, -1.0)


def problem(loss: str = "squared", penalty: str = "none", reg: float = 0.0, dtype: Any = np.float64) -> Problem:
    y = LABELS if loss in ("logistic", "hinge") else Y
    return Problem.from_arrays(X.astype(dtype), y, agents=6, loss=loss, penalty=penalty, reg=reg)


def run(case: Problem, graph: str = "ring", **options: Any) -> Result:
    chosen = {"method": "fast", "iterations": 20_000, **options}
    return solve(case, build_network(graph, case.agents, 1), options=Options(**chosen))


@pytest.mark.parametrize("graph", ["ring", "star", "complete", "path"])
def test_least_squares_has_numpys_answer(graph: str) -> None:
    found = run(problem(), graph, tol=1e-10)
    assert found.stop_reason is StopReason.TOLERANCE
    expected = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(found.theta_last, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert found.theta_average.tobytes() == found.theta_last.tobytes()


def test_elastic_net_and_logistic_have_scikit_learns_answers() -> None:
    from sklearn.linear_model import ElasticNet, LogisticRegression

    reg, ratio = 0.02, 0.5
    found = run(problem("squared", f"elastic-net:{ratio}", reg), tol=1e-11)
    model = ElasticNet(alpha=reg, l1_ratio=ratio, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(X, Y)
    np.testing.assert_allclose(found.theta_last, model.coef_, atol=1e-6 * np.abs(model.coef_).max())
    found = run(problem("logistic", "l2", reg), tol=1e-11)
    ridge = LogisticRegression(C=1.0 / (90 * reg), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    ridge.fit(X, LABELS)
    np.testing.assert_allclose(found.theta_last, ridge.coef_[0], atol=1e-6 * np.abs(ridge.coef_).max())


@pytest.mark.parametrize(
    ("loss", "penalty", "reg"),
    [("squared", "l1", 0.3), ("huber:0.5", "none", 0.0), ("absolute", "l1", 0.05), ("hinge", "l2", 0.05)],
)
def test_others_have_the_references_objective(loss: str, penalty: str, reg: float) -> None:
    case = problem(loss, penalty, reg)
    best = solve_reference(X, case.response, case.loss, case.penalty)
    found = solve(
        case,
        build_network("ring", 6),
        reference=best,
        options=Options(method="fast", iterations=40_000, tol=1e-10),
    )
    assert abs(found.trace[-1].objective_last - best.objective) <= 1e-8 * abs(best.objective)


def test_it_needs_a_fraction_of_the_papers_iterations() -> None:
    """To the same residual, on a path; it sends one vector where the paper sends two."""
    fast = run(problem(), "path", tol=1e-3)
    paper = run(problem(), "path", method="paper", tol=1e-3, iterations=200 * fast.iterations, record="log:5")
    assert fast.stop_reason is StopReason.TOLERANCE
    assert fast.iterations * 5 <= paper.iterations
    assert fast.trace[-1].bytes_sent * 10 <= paper.trace[-1].bytes_sent


def test_units_of_columns_do_not_matter() -> None:
    """Scaling columns by powers of two changes no iterate but by the same powers."""
    factors = 2.0 ** np.arange(-6, 6)
    plain = run(problem(), tol=1e-30, iterations=60)
    scaled = run(Problem.from_arrays(X * factors, Y, agents=6), tol=1e-30, iterations=60)
    np.testing.assert_allclose(scaled.theta_last * factors, plain.theta_last, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_bits_for_threads_schedules_records_and_resume(dtype: Any, tmp_path: Path) -> None:
    case, path = problem("logistic", "l1", 0.01, dtype), str(tmp_path / "state.h5")
    common = {"iterations": 77, "tol": 1e-30}

    def bits(**options: Any) -> tuple[bytes, int]:
        found = run(case, "er:0.7", **{**common, **options})
        return found.theta_last.tobytes(), found.effort.restarts

    first = bits(schedule="tiles", threads=1, record="every:77")
    assert first[1] >= 2
    for schedule in ("tiles", "agents"):
        for threads in range(1, most_threads() + 1):
            assert bits(schedule=schedule, threads=threads, record="every:5") == first
    for stop in (1, 3, 12):
        asked = iter(range(10**6))
        more = {"checkpoint": path, "record": "every:5", "interrupted": lambda at=stop, n=asked: next(n) >= at}
        cut = run(case, "er:0.7", **common, **more)
        assert 0 < cut.iterations < 77
        assert bits(resume=path) == first


def test_a_checkpoint_of_the_other_method_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "state.h5")
    run(problem(), iterations=20, method="paper", checkpoint=path)
    with pytest.raises(DataError, match="another method: it has paper, this run fast"):
        run(problem(), iterations=40, resume=path)


def test_gossip_takes_fewer_iterations_and_counts_its_rounds() -> None:
    one, four = (run(problem(), "path", tol=1e-8, gossip=rounds) for rounds in (1, 4))
    assert one.stop_reason is four.stop_reason is StopReason.TOLERANCE
    assert four.iterations < one.iterations
    np.testing.assert_allclose(four.theta_last, one.theta_last, rtol=1e-5)
    # Agent 1's late vector goes four rounds too.
    exchanges = 4 * (2 * four.iterations + four.effort.looks + four.effort.restarts)
    # Five edges, both ways, and agent 1's lambda over each edge at a restart.
    assert four.trace[-1].bytes_sent == (exchanges * 2 * 5 + four.effort.restarts * 5) * 90 * 8


@pytest.mark.parametrize("graph", ["path", "ring", "er:0.5", "complete"])
def test_the_gossip_matrix_is_chebyshevs_polynomial(graph: str) -> None:
    network, K = build_network(graph, 9, 2), 3
    talk = gossip(network, K)
    M = talk.matrix
    np.testing.assert_allclose(M, M.T, atol=0)
    np.testing.assert_allclose(M.sum(axis=1), 0.0, atol=1e-12)
    values, vectors = np.linalg.eigh(network.laplacian().toarray())
    a, b = network.spectral_gap, network.laplacian_norm
    assert a is not None
    if graph == "complete":
        expected = values / b
    else:
        c_1, c_2 = (b + a) / (b - a), 2.0 / (b + a)
        T = np.polynomial.chebyshev.Chebyshev.basis(K)
        expected = 1.0 - T(c_1 * (1.0 - c_2 * values)) / T(c_1)
        expected[0] = 0.0
    np.testing.assert_allclose(vectors @ np.diag(expected) @ vectors.T, M, atol=1e-10)
    assert expected.max() <= talk.largest * (1.0 + 1e-9) <= 2.0


@pytest.mark.parametrize("graph", ["star", "ring", "er:0.6", "path", "complete"])
@pytest.mark.parametrize("w", [0.1, 1.0, 30.0])
def test_the_steps_are_valid(graph: str, w: float) -> None:
    """|Sigma^(1/2) (tau D + tau_v M M') Sigma^(1/2)| <= 1, with matrices: all of each X_j, and L for every sample."""
    case, network = problem(), build_network(graph, 6, 3)
    steps = local_steps(Team(case), network).with_weight(w)
    n, m = 90, 6
    blocks = np.zeros((n * m, 12))
    for j in range(m):
        columns = case.partition.columns(j)
        blocks[j * n : (j + 1) * n, columns] = X[:, columns] * np.sqrt(steps.scale[columns])
    root = np.sqrt(steps.sigma)
    N = steps.tau_v * root[:, None] * network.laplacian().toarray() * root
    values, vectors = np.linalg.eigh(N)
    assert values[-1] <= 1.0 + 1e-12 and (graph == "complete" or values[-1] < 1.0 - 1e-4)
    rest = np.where(values > 1.0 - 1e-12, 0.0, 1.0 - values)
    mixing = np.kron((vectors * np.sqrt(rest)) @ vectors.T * root, np.eye(n))
    left = steps.tau_theta * (mixing @ blocks) @ (mixing @ blocks).T + np.kron(N, np.eye(n))
    largest = np.linalg.eigvalsh(left)[-1]
    assert 0.5 < largest <= 1.0 + 1e-9


def test_a_zero_block_and_one_agent() -> None:
    blank = X.copy()
    blank[:, :2] = 0.0
    found = run(Problem.from_arrays(blank, Y, agents=6), tol=1e-9)
    assert found.stop_reason is StopReason.TOLERANCE and not found.theta_last[:2].any()
    alone = solve(Problem.from_arrays(X, Y, agents=1), options=Options(method="fast", tol=1e-9))
    np.testing.assert_allclose(alone.theta_last, np.linalg.lstsq(X, Y, rcond=None)[0], rtol=1e-5)
    assert alone.cost.as_json(alone.iterations, alone.effort)["bytes_total"] == 0


def test_the_weight_moves_towards_balance_but_not_too_far() -> None:
    assert next_weight(1.0, 4.0, 9.0) == pytest.approx(1.5**SHARE)
    assert next_weight(1.5, 4.0, 9.0) == pytest.approx(1.5)
    assert next_weight(1.0, 1.0, 50.0) == CHANGE and next_weight(1.0, 50.0, 1.0) == 1.0 / CHANGE
    assert next_weight(1.0, 1.0, 1e12) == LEAP and next_weight(1.0, 1e12, 1.0) == 1.0 / LEAP
    for nothing in ((0.0, 1.0), (1.0, 0.0), (math.inf, 1.0), (1.0, math.nan)):
        assert next_weight(2.0, *nothing) == 2.0


def test_a_period_ends_for_each_of_its_reasons() -> None:
    def is_due(k: int, r: float, iterations: int = 10**6, last: float = 9.0) -> bool:
        numbers = Period(first=1.0, last=last, iterations=iterations).as_array()
        look(numbers, k, r, 0.0)
        return Period.from_array(numbers).due

    assert is_due(10, 0.2) and not is_due(10, 0.21)
    assert is_due(10, 0.5, last=0.49) and not is_due(10, 0.5, last=0.51) and not is_due(10, 0.51, last=0.49)
    assert is_due(36, 0.9, iterations=100) and not is_due(35, 0.9, iterations=100)
    assert not is_due(0, 1.0)
    one = Period(3, True, 0.1, 0.2, 5.0, 7, 8, True, 0.3, math.inf, 0.9, 1, 400, True)
    assert Period.from_array(one.as_array()) == one


def test_the_way_of_a_period_is_the_one_that_was_faster() -> None:
    """Relaxed first; then the other is tried; then whichever had the larger rate, but not for ever without progress."""
    numbers = Period().as_array()

    def end(k: int, last: float) -> Period:
        numbers[K], numbers[FIRST_R], numbers[LAST] = k, 1.0, last
        restart(numbers, True)
        return Period.from_array(numbers)

    one = end(31, 0.5)
    assert one.anchored and one.relaxed_rate == pytest.approx(math.log(2.0) / 31) and one.k == 0
    one = end(40, 0.7)
    assert not one.anchored and one.anchored_rate == pytest.approx(-math.log(0.7) / 40)
    assert end(60, 0.9).anchored
    one = end(15, 0.99)  # too short to tell
    assert one.anchored and one.restarts == 4
    for anchored in (True, False):  # the better one of two that get nowhere: the second time the other is tried again
        assert end(100, 0.25).anchored is anchored


def test_a_residual_that_rises_by_rounding_is_followed_by_plain_steps() -> None:
    numbers = Period(first=1.0, last=1.0, begin=1.0, iterations=1000).as_array()

    def after(k: int, r: float) -> Period:
        look(numbers, k, r, 0.0)
        if numbers[DUE]:
            numbers[K] = k + 1
            restart(numbers, True)
        return Period.from_array(numbers)

    assert not after(TRIAL - 10, 5.0).restarts and not after(TRIAL, 3.9).restarts
    one = after(TRIAL, 4.1)
    assert one.restarts == 1 and one.plain and one.relaxed_rate < 0.0
    numbers[FIRST_R] = 1.0
    assert not after(50, 0.1).due and not after(350, 9.0).due  # no progress and no rise ends it,
    one = after(360, 1.0)  # but 0.36 of all iterations do
    assert one.restarts == 2 and not one.plain


@pytest.mark.parametrize("weight", [None, 1.0])
@pytest.mark.parametrize("agents", [4, 12])
def test_single_precision_keeps_its_answer_on_the_complete_graph(agents: int, weight: float | None) -> None:
    """There T is a projection on what agents disagree about, and what is relaxed or reflected amplifies rounding.

    That is tried again now and then, for twenty iterations; but for these the error is that of rounding once.
    """
    case = Problem.from_arrays(X.astype(np.float32), Y, agents=agents)
    network = build_network("complete", agents)
    engine = FastEngine(case, network, local_steps(Team(case), network, weight=weight))
    best = np.linalg.lstsq(X, Y, rcond=None)[0]
    engine.advance(200)
    errors = []
    for _ in range(30):
        engine.advance(97)
        errors.append(np.abs(engine.last - best).max())
    assert max(errors) <= 5e-4 and np.quantile(errors, 0.75) <= 5e-6


def test_a_residual_that_is_rounding_ends_no_period_and_changes_no_weight() -> None:
    numbers = Period(first=1e-9, last=1e-9, begin=1.0, iterations=10**6).as_array()
    look(numbers, 10, 1e-12, 1e-8)
    assert not numbers[DUE] and not is_trusted(numbers, 1e-8)
    numbers[ITERATIONS] = 100
    look(numbers, 36, 1e-12, 1e-8)
    assert numbers[DUE]
    # An answer that is exact to rounding stays so.
    found = run(problem("absolute", "l1", 0.05), tol=1e-30, iterations=12_000, record="log:20")
    best = solve_reference(X, Y, problem("absolute").loss, problem("absolute", "l1", 0.05).penalty)
    assert abs(found.trace[-1].objective_last - best.objective) <= 1e-8 * best.objective


def test_looks_and_restarts_are_counted_as_exchanges() -> None:
    case, network = problem(), build_network("ring", 6)
    cost = run_cost(case, network, "fast")
    engine = FastEngine(case, network, local_steps(Team(case), network))
    engine.advance(3 * CHECK)
    effort = engine.effort
    assert effort.iterations == 3 * CHECK and effort.looks >= 3
    assert cost.total_exchanges(effort) == effort.iterations + effort.looks + 4 * effort.restarts  # 3 hops of a ring
    assert cost.bytes_sent(Effort(0, 0, 1)) == (2 * 6 + 5) * 90 * 8  # six edges, both ways, and five agents to tell
    assert cost.bytes_sent(Effort(1)) * 2 == run_cost(case, network).bytes_sent(Effort(1))
    d_j, degree, n = 2, 2, 90
    each = phase_model(n, d_j, degree, prox=False, weighted=False, single=False, method="fast")
    assert sum(each.values()) == n * (4 * d_j + degree + 17) + 8 * d_j  # 11 d_j with a soft threshold


def test_what_belongs_to_the_paper_is_refused() -> None:
    for options in (
        {"steps": Given(sigma=1.0, tau=1.0)},
        {"steps": Given(rule="tight")},
        {"steps": Given(R=1.0)},
    ):
        with pytest.raises(UsageError, match="belongs to --method paper"):
            run(problem(), **options)
    with pytest.raises(UsageError, match="is for --method fast"):
        run(problem(), method="paper", gossip=2)
    with pytest.raises(UsageError, match="unknown method"):
        run(problem(), method="slow")
    assert Options(method="fast").tolerance == 1e-6 and Options().tolerance is None


def test_local_steps_say_what_they_are() -> None:
    steps = LocalSteps(np.ones(3), np.array([2.0, 1.0]), np.array([3.0, 1.0]), 2.5, 4.0)
    # demands: max(4, 2 * 3) and max(1, 2 * 1), whose mean is 4
    assert steps.tau_theta == 1.0 / 8.0 and steps.tau_v == 2.0 / 8.0
    np.testing.assert_allclose(steps.sigma, [8.0 / 6.0, 8.0 / 2.0])
    assert steps.as_json()["weight"] == 4.0
    assert steps.identity() == {"primal weight": "auto"}


@pytest.mark.parametrize(("loss", "curvature"), [("squared", 1.0), ("logistic", 0.3 * 0.25), ("absolute", 1.0)])
def test_the_first_weight_follows_from_curvature_agents_and_samples(loss: str, curvature: float) -> None:
    steps = local_steps(Team(problem(loss)), build_network("ring", 6))
    assert steps.w == pytest.approx(FIRST * curvature * math.sqrt(6 * 90)) and not steps.held


def test_the_first_weight_is_smaller_on_a_poor_network() -> None:
    network = build_network("ring", 60)
    case = Problem.from_arrays(np.tile(X, 5), Y, agents=60)
    assert network.spectral_gap is not None
    ratio = network.spectral_gap / network.laplacian_norm
    assert ratio < POOR
    expected = FIRST * math.sqrt(60 * 90) * (ratio / POOR) ** 0.25
    assert local_steps(Team(case), network).w == pytest.approx(expected, rel=1e-5)


def test_a_primal_weight_that_was_given_is_held(tmp_path: Path) -> None:
    path = str(tmp_path / "state.h5")
    common = {"tol": 1e-9, "checkpoint": path}
    found = run(problem(), primal_weight=2.0, **common)
    assert found.stop_reason is StopReason.TOLERANCE and found.effort.restarts >= 2
    assert found.steps.as_json()["weight"] == 2.0
    free = run(problem(), tol=1e-9)
    assert free.steps.as_json()["weight"] != 2.0
    np.testing.assert_allclose(found.theta_last, free.theta_last, rtol=1e-6)
    for other, name in ((None, "auto"), (3.0, "3.0")):
        with pytest.raises(DataError, match=f"another primal weight: it has 2.0, this run {name}"):
            run(problem(), primal_weight=other, resume=path, tol=1e-10)
    assert run(problem(), primal_weight=2.0, resume=path, tol=1e-10).steps.as_json()["weight"] == 2.0


@pytest.mark.parametrize("w", [0.0, -1.0, math.inf, math.nan])
def test_primal_weights_that_are_refused(w: float) -> None:
    with pytest.raises(UsageError, match="must be a positive number"):
        run(problem(), primal_weight=w)
    with pytest.raises(UsageError, match="--primal-weight is for --method fast"):
        run(problem(), method="paper", primal_weight=1.0)

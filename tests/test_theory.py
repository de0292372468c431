"""Theorem 1, corrected, along whole runs; where the paper's printed factor fails; where nothing is claimed."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import naive
import numpy as np
import pytest
from specimens import Specimen, specimen

from fdglm_fast.errors import DataError
from fdglm_fast.network import Network, build_network
from fdglm_fast.problem import Problem
from fdglm_fast.reference import Reference, solve_reference
from fdglm_fast.solver import Options, Result, solve
from fdglm_fast.steps import Given, StepSizes, choose_steps, estimate_radius
from fdglm_fast.team import Team
from fdglm_fast.theory import rho_of

ITERATIONS = 800
GRAPHS: dict[str, tuple[str, int, str]] = {
    "one agent": ("complete", 1, "unit"),
    "complete": ("complete", 4, "unit"),
    "star": ("star", 6, "unit"),
    "rgg": ("rgg:0.6", 6, "unit"),
    "metropolis": ("er:0.5", 6, "metropolis"),
}
# The class that the package uses for each loss: Lipschitz where a loss is in both.
CLASSES = {
    "squared": "sqrt-lipschitz",
    "squared-hinge": "sqrt-lipschitz",
    "logistic": "lipschitz",
    "huber:0.7": "lipschitz",
    "absolute": "lipschitz",
    "quantile:0.9": "lipschitz",
    "hinge": "lipschitz",
}


def network_of(graph: str) -> Network:
    spec, agents, weights = GRAPHS[graph]
    return build_network(spec, agents, seed=1, weights=weights)


def case_of(loss: str, graph: str, penalty: str = "l2") -> Specimen:
    return specimen(loss, penalty, network_of(graph), shape=(50, 7), seed=2)


def reference_of(case: Specimen) -> Reference:
    problem = case.problem
    return solve_reference(case.X, problem.response, problem.loss, problem.penalty)


def run(case: Specimen, given: Given | None = None, reference: Reference | None = None) -> Result:
    options = Options(iterations=ITERATIONS, record="every:1", steps=given or Given(), threads=1)
    return solve(case.problem, case.network, reference=reference, options=options)


def constants(n: int, m: int, steps: StepSizes) -> naive.Constants:
    return naive.Constants(n, m, steps.chi, steps.D, steps.delta or math.inf, steps.R, steps.rho)


# ------------------------------------------------------------------------------------- where it holds


@pytest.mark.parametrize("rule", ["theorem", "tight"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("loss", CLASSES)
def test_the_bound_holds_at_every_iteration(loss: str, graph: str, rule: str) -> None:
    case = case_of(loss, graph)
    reference = reference_of(case)
    result = run(case, Given(rule=rule), reference)
    assert (result.certificate.kind, result.certificate.why_not) == (CLASSES[loss], None)
    assert [record.iteration for record in result.trace] == list(range(1, ITERATIONS + 1))
    claims = 0
    for record in result.trace:
        if record.bound is not None:
            assert record.objective_average - reference.objective <= record.bound
            claims += 1
    assert claims == ITERATIONS if CLASSES[loss] == "lipschitz" else claims > 10


@pytest.mark.parametrize("penalty", ["none", "l1", "nonneg", "box:-0.02:0.03"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute"])
def test_other_penalties(loss: str, penalty: str) -> None:
    case = case_of(loss, "rgg", penalty)
    reference = reference_of(case)
    result = run(case, reference=reference)
    bounds = [(r.objective_average - reference.objective, r.bound) for r in result.trace if r.bound is not None]
    assert len(bounds) > 10 and all(gap <= bound for gap, bound in bounds)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("loss", CLASSES)
def test_the_certificate_is_the_oracle_s_bound(loss: str, graph: str) -> None:
    """With the theorem's steps, at any T; nothing is claimed exactly where the oracle claims nothing."""
    case = case_of(loss, graph)
    result = run(case, reference=reference_of(case))
    told = constants(50, case.network.agents, result.steps)
    assert told.rho == rho_of(case.problem.loss)
    first = naive.first_iteration(told)
    for T in sorted({1, 2, 10, first - 1, first, first + 1, 3 * first, 100_000} - {0}):
        for best in (0.0, 0.3, 7.0):
            expected = naive.bound(CLASSES[loss], best, T, told)
            gap = result.certificate.gap(T, best)
            if math.isinf(expected):
                assert gap is None
            else:
                assert gap is not None
                assert gap + best == pytest.approx(expected, rel=1e-10)


def test_steps_of_the_user_s_own_have_their_own_bound() -> None:
    """A = R^2 (1 + 2 chi^2/delta^2)/tau and C = m n rho^2/sigma, which no longer agree with each other."""
    case = case_of("logistic", "star")
    reference = reference_of(case)
    plain = run(case, reference=reference)
    for factor in (0.1, 10.0):
        sigma, tau = plain.steps.sigma * factor, plain.steps.tau / factor
        result = run(case, Given(sigma=sigma, tau=tau), reference)
        total = plain.certificate.A * factor + plain.certificate.C / factor
        assert result.certificate.gap(7, 0.0) == pytest.approx(total / 7, rel=1e-12)
        assert all(r.objective_average - reference.objective <= (r.bound or 0.0) for r in result.trace)


def norm_of_K(case: Specimen) -> float:
    """||K|| for K = (1/n) [X_1 .. X_m in block rows, L (x) I], as a dense matrix."""
    (n, d), m = case.X.shape, case.network.agents
    K = np.zeros((m * n, d + m * n))
    for j, block in enumerate(case.blocks):
        K[j * n : (j + 1) * n, block] = case.X[:, block]
    K[:, d:] = np.kron(np.array(naive.laplacian(m, case.edges)), np.eye(n))
    return float(np.linalg.norm(K / n, 2))


@pytest.mark.parametrize("rule", ["theorem", "tight"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_steps_keep_tau_sigma_K_below_one(graph: str, rule: str) -> None:
    """By kappa = chi + D, or by kappa^2 = max_j ||X_j||^2 + ||L||^2, which is the larger product of the two."""
    case = specimen("logistic", "l2", network_of(graph), shape=(12, 7), seed=2)
    steps = choose_steps(case.problem, case.network, Given(rule=rule, R=1.0), None)
    L = float(np.linalg.norm(naive.laplacian(case.network.agents, case.edges), 2))
    blocks = max(np.linalg.norm(case.X[:, block], 2) for block in case.blocks)
    kappa = np.linalg.norm(case.X, 2) + L if rule == "theorem" else np.hypot(blocks, L)
    assert steps.sigma * steps.tau == pytest.approx((12 / kappa) ** 2, rel=1e-9)
    assert steps.sigma * steps.tau * norm_of_K(case) ** 2 <= 1.0 + 1e-12


# ------------------------------------------------------------------------ where the paper's factor fails


class Clamped(NamedTuple):
    """theta kept in [0, R] while y asks for more; see test_naive.test_printed_factor_fails."""

    case: Specimen
    R: float
    best: float


def clamped(m: int, n: int = 100, best: float = 50.0) -> Clamped:
    """One feature x = (1,..,1)/sqrt(n). For two agents agent 1, who has y, owns a column of zeros."""
    reach = 1.0 if m == 1 else 2 * math.sqrt(3)  # (chi + D) sqrt(1 + 2 chi^2/delta^2) with chi = D = delta = 1
    R = 3.99 / (reach * math.sqrt(2) * math.sqrt(m / n))
    column = np.full((n, 1), 1 / math.sqrt(n))
    X = column if m == 1 else np.hstack([np.zeros((n, 1)), column])
    y = np.full(n, R / math.sqrt(n) + math.sqrt(2 * best))
    network = Network(2, np.array([[0, 1]]), np.array([0.5])) if m == 2 else build_network("complete", 1)
    problem = Problem.from_arrays(X, y, agents=m, penalty=f"box:0:{R!r}")
    return Clamped(Specimen(X, y, problem, network, ("squared",), ("box", 0.0, R)), R, best)


def reference_at(case: Specimen, theta: Any, best: float) -> Reference:
    """An optimum that is known by hand; what else a reference says comes from a solve of the same problem."""
    solved = reference_of(case)
    assert solved.objective == pytest.approx(best, rel=1e-9)
    return dataclasses.replace(solved, theta=theta, objective=best, norm=float(np.linalg.norm(theta)))


@pytest.mark.parametrize("m", [1, 2])
def test_the_printed_factor_fails_on_a_run_of_the_package(m: int) -> None:
    """At every T from the first valid one on, by more than a factor of two; the corrected bound holds."""
    case, R, best = clamped(m)
    theta = np.zeros(m)
    theta[-1] = R
    result = run(case, Given(R=R), reference_at(case, theta, best))
    told = constants(100, m, result.steps)
    assert (told.chi, told.D) == pytest.approx((1.0, float(m == 2)), rel=1e-9)
    first = naive.first_iteration(told)
    assert first == 8
    for record in result.trace:
        gap = record.objective_average - best
        if record.iteration < first:
            assert record.bound is None
        else:
            assert gap > 2 * (naive.printed_bound(best, record.iteration, told) - best)
            assert record.bound is not None and gap <= record.bound


# ----------------------------------------------------------------------------------------- the estimate of R


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_the_estimate_of_R_is_exact_for_orthogonal_columns_of_one_norm(scale: float) -> None:
    rng = np.random.default_rng(0)
    X, theta = scale * np.linalg.qr(rng.standard_normal((40, 7)))[0], rng.standard_normal(7)
    problem = Problem.from_arrays(X, X @ theta, agents=3)
    assert estimate_radius(Team(problem)) == pytest.approx(np.linalg.norm(theta), rel=1e-12)


def test_the_estimate_of_R_is_a_formula_of_two_norms() -> None:
    for loss, change in (("squared", lambda y: y), ("poisson", np.log1p), ("logistic", lambda y: y)):
        case = case_of(loss, "rgg")
        expected = np.linalg.norm(change(case.y)) * math.sqrt(case.X.shape[1]) / np.linalg.norm(case.X)
        steps = choose_steps(case.problem, case.network, Given(), None)
        assert abs(steps.R / expected - 1.0) < 1e-12
        assert steps.sources["R"].startswith("estimate: ||y|| sqrt(d)/||X||_F")
    nothing = Problem.from_arrays(np.zeros((5, 2)), np.ones(5), agents=1)
    assert choose_steps(nothing, build_network("complete", 1), Given(), None).R == 1.0


def test_responses_whose_squares_are_beyond_all_numbers() -> None:
    """R is a norm, and finite where the sum of the squares is not; where R is not either, a sentence says so."""
    X, network = np.eye(4, 3), build_network("complete", 1)
    large = choose_steps(Problem.from_arrays(X, np.full(4, 1e200), agents=1), network, Given(), None)
    assert abs(large.R / 2e200 - 1.0) < 1e-12 and large.sigma > 0.0 and math.isfinite(large.tau)
    with pytest.raises(DataError, match="scale X or y"), np.errstate(over="ignore"):
        choose_steps(Problem.from_arrays(X, np.full(4, 1.7e308), agents=1), network, Given(), None)


# ------------------------------------------------------------------------------- where nothing is claimed


def assert_no_claim(result: Result, reason: str) -> None:
    assert result.certificate.kind is None
    assert reason in (result.certificate.why_not or "")
    assert all(record.bound is None for record in result.trace)
    assert result.certificate.gap(10**9, 0.0) is None


def test_poisson_is_in_neither_class() -> None:
    case = case_of("poisson", "rgg")
    assert_no_claim(run(case, reference=reference_of(case)), "'poisson' is in neither class")


def test_without_a_reference_nothing_is_known() -> None:
    assert_no_claim(run(case_of("squared", "rgg")), "optimum is not known")


def test_an_R_below_the_norm_of_the_optimum() -> None:
    case = case_of("logistic", "rgg")
    reference = reference_of(case)
    assert_no_claim(run(case, Given(R=0.9 * reference.norm), reference), "smaller than the norm of the optimum")
    assert run(case, Given(R=1.1 * reference.norm), reference).certificate.kind == "lipschitz"


def test_steps_that_may_diverge() -> None:
    case = case_of("logistic", "rgg")
    reference = reference_of(case)
    plain = run(case, Given(rule="tight"), reference).steps
    given = Given(sigma=plain.sigma, tau=1.5 * plain.tau, force=True)
    assert_no_claim(run(case, given, reference), "sigma * tau")


def test_too_early_for_the_square_root_class() -> None:
    """T >= 2 m n rho^2/sigma: no bound before, one at every iteration after, and no reason to give."""
    case = case_of("squared", "star")
    result = run(case, reference=reference_of(case))
    known = [record.bound is not None for record in result.trace]
    first = known.index(True)
    assert 1 < first < ITERATIONS - 10 and all(known[first:])
    assert result.trace[first].iteration == naive.first_iteration(constants(50, 6, result.steps))
    assert result.certificate.why_not is None


@pytest.mark.parametrize(("name", "factor"), [("chi", 0.9), ("D", 0.9), ("delta", 1.1)], ids=["chi", "D", "delta"])
def test_constants_of_the_user_that_are_wrong(name: str, factor: float) -> None:
    """chi < ||X||, D < ||L|| or delta > lambda_2: the theorem's conditions do not hold."""
    case = case_of("logistic", "star")
    reference = reference_of(case)
    true = getattr(run(case, reference=reference).steps, name)
    assert_no_claim(run(case, Given(**{name: factor * true}, force=True), reference), name)
    right = run(case, Given(**{name: true / factor}), reference)
    assert right.certificate.kind == "lipschitz"
    assert all(r.objective_average - reference.objective <= (r.bound or 0.0) for r in right.trace)

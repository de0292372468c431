"""Compression to the triangular factor of [X y]: the same iterates and the same trace, and only where it is exact."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from specimens import LOSSES, PENALTIES, Specimen, specimen

from fdglm_fast import compress as module
from fdglm_fast.compress import compress, triangular_factor, wanted
from fdglm_fast.errors import UsageError
from fdglm_fast.network import Network, build_network
from fdglm_fast.reference import solve_reference
from fdglm_fast.solver import Options, Result, solve
from fdglm_fast.steps import Given

TOLERANCE = 1e-9
OWNER = np.array([1, 3, 1, 2, 0, 1, 2, 1, 3, 1, 2])


def weighted_ring() -> Network:
    ring = build_network("ring", 4)
    return Network(4, ring.edges, np.array([0.5, 2.0, 1.0, 0.7]))


def run(case: Specimen, problem: Any, rule: str = "theorem") -> Result:
    groups = np.array(case.penalty[2]) if case.penalty[0] == "group-l2" else None
    reference = solve_reference(case.X, case.y, problem.loss, problem.penalty, groups)
    options = Options(iterations=300, record="every:20", steps=Given(rule=rule), threads=1)
    return solve(problem, case.network, reference=reference, options=options)


def assert_agree(full: Result, short: Result) -> None:
    for name in ("theta_average", "theta_last"):
        expected = getattr(full, name)
        away = np.abs(getattr(short, name) - expected).max()
        assert away <= TOLERANCE * np.abs(expected).max(), name
    assert (short.steps.sigma, short.steps.tau) == pytest.approx((full.steps.sigma, full.steps.tau), rel=TOLERANCE)
    assert short.objective_at_zero == pytest.approx(full.objective_at_zero, rel=TOLERANCE)
    assert len(short.trace) == len(full.trace) == 15
    scale = {"objective": full.objective_at_zero, "gap": full.objective_at_zero, "residual": 1.0, "relative": 1.0}
    for one, other in zip(full.trace, short.trace, strict=True):
        for field in dataclasses.fields(one):
            expected, got = getattr(one, field.name), getattr(other, field.name)
            if field.name == "seconds":
                continue
            limit = TOLERANCE * scale.get(field.name.split("_")[0], 1.0)
            assert got == pytest.approx(expected, rel=TOLERANCE, abs=limit) if expected is not None else got is None


@pytest.mark.parametrize("rule", ["theorem", "tight"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_same_run(penalty: str, rule: str) -> None:
    case = specimen("squared", penalty, weighted_ring(), shape=(400, 11), owner=OWNER, seed=1)
    short = compress(case.problem)
    assert (short.n, short.tiles.rows, short.compressed) == (400, 12, True)
    assert not case.problem.compressed
    assert_agree(run(case, case.problem, rule), run(case, short, rule))


def test_one_agent() -> None:
    case = specimen("squared", "l1", build_network("complete", 1), shape=(400, 11))
    assert_agree(run(case, case.problem), run(case, compress(case.problem)))


def test_rows_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factor is built up block by block; R'R = [X y]'[X y] however many there are."""
    case = specimen("squared", "l2", weighted_ring(), shape=(397, 11), owner=OWNER)
    monkeypatch.setattr(module, "BLOCK_ROWS", 64)
    R = triangular_factor(case.problem)
    assert R.shape == (12, 12) and np.array_equal(R, np.triu(R))
    table = np.column_stack([case.X[:, case.problem.partition.order], case.y])
    np.testing.assert_allclose(R.T @ R, table.T @ table, rtol=0, atol=1e-12 * np.abs(table.T @ table).max())
    assert_agree(run(case, case.problem), run(case, compress(case.problem)))


def test_columns_that_depend_on_each_other() -> None:
    case = specimen("squared", "l2", build_network("ring", 4), shape=(100, 11))
    X = case.X.copy()
    X[:, 5:8] = X[:, :3]
    X[:, 9] = 0.0
    problem = type(case.problem).from_arrays(X, case.y, agents=4, penalty="l2", reg=0.4)
    case = case._replace(X=X, problem=problem)
    assert_agree(run(case, problem), run(case, compress(problem)))


def test_fewer_samples_than_columns() -> None:
    """Nothing is gained, nothing is lost: the factor has rows of zeros."""
    case = specimen("squared", "l2", build_network("ring", 4), shape=(7, 11))
    assert_agree(run(case, case.problem), run(case, compress(case.problem)))


def test_float32_data() -> None:
    """The factor is rounded to the type of the data, so that agreement is that of float32."""
    case = specimen("squared", "l2", weighted_ring(), shape=(400, 11), owner=OWNER, dtype=np.float32)
    short = compress(case.problem)
    assert short.dtype == np.float32
    full, less = run(case, case.problem), run(case, short)
    np.testing.assert_allclose(less.theta_average, full.theta_average, rtol=0, atol=1e-5)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "squared"])
def test_other_losses_are_refused(loss: str) -> None:
    problem = specimen(loss, "l2", build_network("ring", 4), shape=(400, 11)).problem
    with pytest.raises(UsageError, match=f"squared loss only, not for '{loss}'"):
        wanted("on", problem)
    assert not wanted("auto", problem, sweep=True)
    assert not wanted("off", problem, sweep=True)


@pytest.mark.parametrize(("n", "worth"), [(24, False), (25, True), (400, True)])
def test_when_compression_is_chosen(n: int, worth: bool) -> None:
    """auto: in sweeps only, and only when n > 2 (d + 1)."""
    problem = specimen("squared", "l2", build_network("ring", 4), shape=(n, 11)).problem
    assert wanted("auto", problem, sweep=True) == worth
    assert not wanted("auto", problem)
    assert wanted("on", problem)
    assert not wanted("off", problem, sweep=True)
    with pytest.raises(UsageError, match="auto"):
        wanted("auti", problem)

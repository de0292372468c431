"""Sums over agents that are exact: the same bits in any order and any split, and as good as a double can say them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fdglm_fast.exact import bits_for, sum_grid
from fdglm_fast.norms import round_up
from fdglm_fast.partition import from_owner
from fdglm_fast.passes import Passes
from fdglm_fast.problem import Problem


def predictions(X: np.ndarray, owner: np.ndarray, theta: np.ndarray) -> np.ndarray:
    m = int(owner.max()) + 1
    problem = Problem.from_arrays(X, np.zeros(len(X)), agents=m, owner=owner)
    z = Passes(problem).evaluate(theta[from_owner(owner, m).order][np.newaxis], None)[0]
    return np.asarray(z.reshape(-1)[: len(X)])


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e150])
def test_the_order_of_the_agents_does_not_matter(scale: float) -> None:
    """Agents renamed: the same parts in another order. A plain sum of doubles fails this."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70, 24)) * 10.0 ** rng.integers(-6, 6, 24) * scale
    owner, theta = np.repeat(np.arange(8), 3), rng.standard_normal(24)
    first = predictions(X, owner, theta)
    for _ in range(5):
        assert predictions(X, rng.permutation(8)[owner], theta).tobytes() == first.tobytes()
    parts = [X[:, 3 * j : 3 * j + 3] @ theta[3 * j : 3 * j + 3] for j in range(8)]
    assert sum(parts).tobytes() != sum(parts[::-1]).tobytes()


def test_the_sums_are_right_to_the_last_digits_although_parts_cancel() -> None:
    rng = np.random.default_rng(1)
    big = rng.standard_normal((40, 1)) * 1e12
    X = np.hstack([big, rng.standard_normal((40, 1)), -big])
    z = predictions(X, np.arange(3), np.ones(3))
    exact = [float(sum(Fraction(float(x)) for x in row)) for row in X]
    assert z == pytest.approx(exact, rel=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_a_number(bad: float) -> None:
    theta = np.ones(4)
    theta[2] = bad
    assert np.isnan(predictions(np.ones((5, 4)), np.array([0, 0, 1, 1]), theta)).all()


def test_zero_is_zero() -> None:
    assert (predictions(np.ones((5, 4)), np.array([0, 0, 1, 1]), np.zeros(4)) == 0.0).all()
    assert (predictions(np.zeros((5, 4)), np.array([0, 0, 1, 1]), np.ones(4)) == 0.0).all()


@pytest.mark.parametrize("agents", [1, 2, 3, 64, 65, 10**6])
@pytest.mark.parametrize("bound", [5e-324, 1e-300, 1.0, 3.999, 1e300])
def test_the_grid_leaves_room_for_all_agents(agents: int, bound: float) -> None:
    scale, fine = sum_grid(np.array([bound]), agents)[0]
    assert bound * scale <= fine and int(fine) * agents < 2**63 - agents
    assert fine == 2.0 ** bits_for(agents) and 1.0 / (1.0 / scale) == scale


@pytest.mark.parametrize(
    ("value", "digits", "up"),
    [(1.0, 9, 1.0), (1.00000000001, 9, 1.00000001), (9.9999999999, 9, 10.0), (123.4561, 5, 123.46), (1e-5, 9, 1e-5)],
)
def test_rounding_up(value: float, digits: int, up: float) -> None:
    assert round_up(value, digits) == up >= value


def test_the_norm_hardly_depends_on_the_number_of_agents() -> None:
    from fdglm_fast.norms import design_norm
    from fdglm_fast.team import Team

    X = np.random.default_rng(2).standard_normal((200, 24))
    found = {m: design_norm(Team(Problem.from_arrays(X, np.zeros(200), agents=m))) for m in (1, 2, 5, 24)}
    assert len(set(found.values())) == 1
    assert np.linalg.norm(X, 2) <= found[1] <= np.linalg.norm(X, 2) * (1.0 + 1e-8)

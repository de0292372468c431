"""Edge weights that are fitted: least condition number, and the best factor under the theorem's bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_tools import fdglm, solve, write_problem
from hypothesis import given
from hypothesis import strategies as st

from fdglm_fast import optimal_weights as optimal
from fdglm_fast.best_scale import best_factor, best_scale, bound_factor, bound_factors
from fdglm_fast.errors import UsageError
from fdglm_fast.network import Network, build_network, unscaled_network

# er:0.1 is hardly ever connected between so few agents, and is drawn for more.
GRAPHS = [("ring", 12), ("star", 12), ("lattice", 12), ("rgg:0.6", 12), ("er:0.4", 12), ("complete", 8)]


def condition(network: Network) -> float:
    assert network.spectral_gap is not None
    return network.laplacian_norm / network.spectral_gap


# --- the best factor ----------------------------------------------------------------------------------------

POSITIVE = st.floats(1e-3, 1e3)


@given(chi=POSITIVE, delta=POSITIVE, kappa=st.floats(1.0, 1e4))
def test_no_other_factor_is_better(chi: float, delta: float, kappa: float) -> None:
    D = kappa * delta
    c = best_scale(chi, D, delta)
    least = bound_factor(chi, c * D, c * delta)
    assert least == pytest.approx(best_factor(chi, D, delta), rel=1e-12)
    for other in c * np.geomspace(1e-3, 1e3, 61):
        assert bound_factor(chi, other * D, other * delta) >= least * (1 - 1e-12)


@given(chi=POSITIVE, kappa=st.floats(1.0, 1e4), less=st.floats(0.5, 0.999))
def test_a_smaller_condition_number_gives_a_smaller_factor(chi: float, kappa: float, less: float) -> None:
    better = max(1.0, less * kappa)
    assert best_factor(chi, better, 1.0) <= best_factor(chi, kappa, 1.0)


@pytest.mark.parametrize(("spec", "m"), GRAPHS)
def test_the_factor_falls_from_unit_to_scaled_to_optimal(spec: str, m: int) -> None:
    chi = 30.0
    found = {rule: bound_factors(build_network(spec, m, 1, rule, chi), chi) for rule in ("unit", "scaled", "optimal")}
    unit, scaled, best = (found[rule] for rule in ("unit", "scaled", "optimal"))
    assert unit and scaled and best
    assert unit.used == unit.unit == pytest.approx(scaled.unit) == pytest.approx(best.unit)
    assert best.used <= scaled.used * (1 + 1e-9) < unit.used
    assert best.used < scaled.used * (1 - 1e-3) or spec in ("ring", "star", "complete")


def test_scaling_again_changes_nothing() -> None:
    once = build_network("lattice", 12, 0, "scaled", 7.0)
    assert not once.unit_weights and np.ptp(once.weights) == 0.0
    np.testing.assert_allclose(once.scaled_for(7.0).weights, once.weights, rtol=1e-12)


def test_what_needs_chi() -> None:
    with pytest.raises(UsageError, match="chi"):
        build_network("ring", 5, 0, "scaled")
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="chi must be a positive number"):
            build_network("ring", 5, 0, "scaled", wrong)
    assert unscaled_network("ring", 5, 0, "scaled").unit_weights
    assert build_network("ring", 5, 0, "unit", 3.0).unit_weights
    assert build_network("anything", 1, 0, "scaled").agents == 1


# --- the least condition number -----------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["complete", "star", "ring", "hypercube"])
def test_where_all_edges_are_alike_the_programme_finds_equal_weights(spec: str) -> None:
    network = build_network(spec, 8)
    raw = optimal._solve(network.edges, 8)
    assert condition(Network(8, network.edges, raw)) == pytest.approx(condition(network), rel=1e-6)
    assert (optimal.optimal_weights(network.edges, 8) == 1.0).all()
    assert build_network(spec, 8, 0, "optimal").unit_weights


def test_a_triangle_with_a_tail_by_hand() -> None:
    """Vertices 0 and 1 can be exchanged, so weights (a, b, b, 1) are optimal; a grid over a and b finds the same."""
    edges = np.array([[0, 1], [0, 2], [1, 2], [2, 3]])
    ends = np.eye(4)[edges[:, 0]] - np.eye(4)[edges[:, 1]]

    def kappa(w: list[float]) -> float:
        values = np.linalg.eigvalsh(ends.T @ np.diag(w) @ ends)
        return float(values[-1] / values[1])

    grid = min(kappa([a, b, b, 1.0]) for a in np.linspace(0.0, 1.5, 61) for b in np.linspace(0.2, 1.7, 61))
    found = optimal.optimal_weights(edges, 4)
    assert kappa(found.tolist()) <= grid * (1 + 1e-5) and kappa(found.tolist()) >= grid * (1 - 0.02)
    assert kappa(found.tolist()) < 0.99 * kappa([1.0] * 4)


@pytest.mark.parametrize(("spec", "m"), [("lattice", 12), ("rgg:0.6", 12), ("er:0.4", 12)])
def test_nothing_nearby_is_better(spec: str, m: int) -> None:
    unit, found = build_network(spec, m, 1), build_network(spec, m, 1, "optimal")
    least = condition(found)
    assert least < condition(unit) and found.laplacian_norm == pytest.approx(unit.laplacian_norm)
    assert found.weights.min() >= optimal.FLOOR * found.weights.max() * (1 - 1e-9)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1, 0.5):
        for _ in range(25):
            near = found.weights * np.exp(size * rng.standard_normal(len(found.weights)))
            assert condition(Network(m, found.edges, near)) >= least * (1 - 1e-5)


def test_the_same_bits_again() -> None:
    first, second = (build_network("rgg:0.6", 12, 3, "optimal", 5.0).weights for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_more_agents_than_the_programme_can_do() -> None:
    with pytest.raises(UsageError, match=f"more than {optimal.MOST_AGENTS} agents"):
        build_network("lattice", optimal.MOST_AGENTS + 1, 0, "optimal")
    assert build_network("complete", optimal.MOST_AGENTS + 1, 0, "optimal").unit_weights  # known without it


def test_weights_of_a_graph_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("0 1 5\n0 2 5\n1 2 1\n2 3 7\n")
    best = build_network(f"file:{path}", 4, 0, "optimal")
    assert best.weights.tolist() == optimal.optimal_weights(best.edges, 4).tolist() != [1.0] * 4
    scaled = build_network(f"file:{path}", 4, 0, "scaled", 2.0)
    assert np.ptp(scaled.weights) == 0.0  # of unit weights, not of the file's


# --- solving with them --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    write_problem(folder / "data.h5", n=60, d=16)
    return folder


@pytest.fixture(scope="module")
def reports(folder: Path) -> dict[str, dict[str, Any]]:
    options = "--agents 12 --graph rgg:0.6 --seed 1 --loss huber:1 --reference --iterations 400"
    return {rule: solve(folder / "data.h5", options, "--weights", rule) for rule in ("unit", "scaled", "optimal")}


def test_the_bound_falls_and_holds(reports: dict[str, dict[str, Any]]) -> None:
    unit, scaled, best = (reports[rule] for rule in ("unit", "scaled", "optimal"))
    assert best["bound"] < scaled["bound"] < unit["bound"]
    for report in (unit, scaled, best):
        gap = report["objective"]["average"] - report["objective"]["reference"]
        assert 0.0 <= gap <= report["bound"]
        graph, steps = report["graph"], report["steps"]
        assert graph["bound_factor"] == pytest.approx(bound_factor(steps["chi"], steps["D"], steps["delta"]))
        assert graph["unit_bound_factor"] == pytest.approx(unit["graph"]["bound_factor"])
        # With the theorem's steps the bound is 2 R rho sqrt(m/n) f / T: it falls as f does.
        assert report["bound"] / unit["bound"] == pytest.approx(graph["bound_factor"] / graph["unit_bound_factor"])


def test_on_a_poor_network_the_error_falls_too(folder: Path) -> None:
    """Measured, not proven: a smaller bound promises no smaller error, and on `reports`' dense network it is larger."""
    options = "--agents 12 --graph path --reference --iterations 400"
    unit, scaled = (
        solve(folder / "data.h5", options, "--weights", rule)["relative_error"]["average"]
        for rule in ("unit", "scaled")
    )
    assert scaled < 0.5 * unit


def test_the_network_is_the_one_of_the_same_chi(reports: dict[str, dict[str, Any]]) -> None:
    for rule in ("scaled", "optimal"):
        report = reports[rule]
        network = build_network("rgg:0.6", 12, 1, rule, report["steps"]["chi"])
        assert report["graph"]["laplacian_norm"] == pytest.approx(network.laplacian_norm)
        assert report["graph"]["spectral_gap"] == pytest.approx(network.spectral_gap)


def test_the_summary_says_what_the_weights_do(folder: Path) -> None:
    options = "--agents 4 --graph ring --iterations 20"
    done = fdglm("solve", folder / "data.h5", options, "--weights scaled")
    assert done.code == 0 and "in the theorem's bound" in " ".join(done.out.split())
    assert "in the theorem's bound" not in fdglm("solve", folder / "data.h5", options).out


def test_bounds_of_the_network_cannot_be_given_beside_fitted_weights(folder: Path) -> None:
    for rule in ("scaled", "optimal"):
        for bound in ("--laplacian-norm 9", "--spectral-gap 0.1"):
            done = fdglm("solve", folder / "data.h5", f"--agents 4 --graph ring --weights {rule}", bound)
            assert done.code == 2 and "cannot be given" in done.err and done.err.count("\n") == 1


def test_a_sweep_with_scaled_weights_goes_on(folder: Path, tmp_path: Path) -> None:
    line = ("sweep", folder / "data.h5", "--agents 1,4 --graph ring --iterations 20 --weights scaled --json", "--out")
    first = fdglm(*line, tmp_path / "runs")
    again = fdglm(*line, tmp_path / "runs")
    assert first.code == again.code == 0, first
    assert '"done": 2' in first.out and '"kept": 2' in again.out


def test_a_resumed_run_has_the_same_network(folder: Path, tmp_path: Path) -> None:
    options = "--agents 9 --graph lattice --weights optimal --iterations"
    whole = solve(folder / "data.h5", f"{options} 60")
    solve(folder / "data.h5", f"{options} 30", "--checkpoint", tmp_path / "state.h5")
    resumed = solve(folder / "data.h5", f"{options} 60", "--resume", tmp_path / "state.h5")
    assert resumed["objective"] == whole["objective"] and resumed["graph"] == whole["graph"]


def test_the_graph_command_with_chi() -> None:
    done = fdglm("graph", "--agents 9 --graph lattice --weights scaled --chi 20")
    assert done.code == 0 and "bound's factor" in done.out
    missing = fdglm("graph", "--agents 9 --graph lattice --weights scaled")
    assert missing.code == 2 and "--chi" in missing.err and missing.err.count("\n") == 1


def test_the_cost_does_not_need_chi() -> None:
    sizes = "--samples 100 --features 20 --agents 9 --graph lattice --json --weights"
    scaled, unit = (fdglm("cost", f"{sizes} {rule}") for rule in ("scaled", "unit"))
    assert scaled.code == unit.code == 0, scaled


def test_the_fast_method_takes_them_too(folder: Path) -> None:
    """Its steps follow the scale of the weights, so that scaled weights change nothing but rounding."""
    options = "--method fast --agents 12 --graph rgg:0.6 --seed 1 --reference"
    found = {rule: solve(folder / "data.h5", options, "--weights", rule) for rule in ("unit", "scaled", "optimal")}
    assert all(report["stop_reason"] == "tolerance" for report in found.values())
    assert found["scaled"]["objective"]["last"] == pytest.approx(found["unit"]["objective"]["last"], rel=1e-9)


# --- average or last ----------------------------------------------------------------------------------------


def test_which_of_average_and_last_is_better_is_told(folder: Path) -> None:
    """Few iterations favour the last iterate of one agent; both answers occur."""
    seen = set()
    for options in ("--agents 1 --iterations 400", "--agents 12 --graph path --iterations 100"):
        report = solve(folder / "data.h5", options)
        objective = report["objective"]
        assert report["better"] == ("average" if objective["average"] <= objective["last"] else "last")
        words = {"average": "the average has the smaller", "last": "the last iterate has the smaller"}
        printed = " ".join(fdglm("solve", folder / "data.h5", options).out.split())
        assert words[report["better"]] in printed
        seen.add(report["better"])
    assert seen == {"average", "last"}

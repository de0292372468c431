"""`fdglm bench`: its rival takes the solver's steps, and what it reports is well formed. Nothing here is timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import fdglm_bench.run
import fdglm_bench.tune
from fdglm_bench.bandwidth import Bandwidth, limit_seconds
from fdglm_bench.cases import Axes, Case, check_axes, grid, parse_axes
from fdglm_bench.data import Data, make_data, steps_for
from fdglm_bench.exchange import PRODUCTS, products_for
from fdglm_bench.machine import machine_facts
from fdglm_bench.measure import fill_engine, new_engine
from fdglm_bench.numpy_rival import NumpyRival, Variant
from fdglm_bench.passes import batches_for, blocks_of
from fdglm_bench.ranks import compare, the_case
from fdglm_bench.scaling import fit_line, scaling_points
from fdglm_bench.tune import Tuner
from fdglm_cli.bench import command
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.kernels.compile import prepare
from fdglm_fast.network import Network, build_network

N, D = 90, 24  # the last tile is not full
CELLS = 14


@pytest.fixture(scope="module", params=["float64", "float32"])
def data(request: pytest.FixtureRequest) -> Data:
    prepare(request.param, "tiles")
    return make_data(N, D, request.param)


def untiled(Z: Any, n: int) -> Any:
    """(tiles, m, B) as (m, n)."""
    tiles, m, B = Z.shape
    return Z.transpose(1, 0, 2).reshape(m, tiles * B)[:, :n]


def assert_same_iterates(data: Data, network: Network, variant: Variant) -> None:
    steps = steps_for(data, network)
    engine = new_engine(data, network, steps, "tiles", 1)
    offsets = engine.problem.partition.offsets
    blocks = blocks_of(data.X, data.columns, offsets, variant.layout)
    rival = NumpyRival(blocks, data.y, offsets, network, steps, variant)
    engine.advance(12)
    rival.advance(12)
    tolerance = 1e-12 if data.X.dtype == np.float64 else 2e-5
    state = engine.state
    assert rival.lam.dtype == rival.v.dtype == data.X.dtype
    pairs = [
        (rival.theta, state.theta),
        (rival.theta_sum, state.theta_out),
        (rival.lam, untiled(state.lam, N)),
        (rival.v, untiled(state.v, N)),
    ]
    for mine, solver in pairs:
        assert mine.shape == solver.shape
        scale = np.abs(solver).max(initial=0.0)
        assert scale > 0.0 or solver.size == 0
        np.testing.assert_allclose(mine, solver, rtol=0.0, atol=tolerance * scale)


def test_data_in_three_layouts(data: Data) -> None:
    assert data.X.flags.c_contiguous and data.columns.flags.c_contiguous
    np.testing.assert_array_equal(data.columns.T, data.X)
    np.testing.assert_array_equal(data.problem.dense(), data.X)
    assert np.linalg.norm(data.X, 2) <= steps_for(data, build_network("ring", 3)).chi


@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize(("agents", "batch"), [(1, 1), (4, 1), (4, 2), (4, 4), (5, 1)])
def test_rival_agrees_in_every_layout(data: Data, agents: int, batch: int, layout: str) -> None:
    product = "dense" if agents > 1 else None
    assert_same_iterates(data, build_network("ring", agents), Variant(layout, batch, product, 40))


@pytest.mark.parametrize("chunk", [1, 40, N, 1000])
@pytest.mark.parametrize("graph", ["complete", "star", "er:0.5", "lattice", "rgg:0.6"])
def test_rival_agrees_with_every_product(data: Data, graph: str, chunk: int) -> None:
    network = build_network(graph, 12, seed=3)
    for product in {*products_for(network), "dense", "sparse"}:
        assert_same_iterates(data, network, Variant("columns", 1, product, chunk))


def test_blocks_of_columns_are_not_copied() -> None:
    X = np.arange(24.0).reshape(3, 8)
    columns = np.ascontiguousarray(X.T)
    for offsets in (np.array([0, 4, 8]), np.array([0, 3, 8])):
        for j in (0, 1):
            mine = blocks_of(X, columns, offsets, "columns")[j]
            assert np.shares_memory(mine, columns)
            np.testing.assert_array_equal(mine, X[:, offsets[j] : offsets[j + 1]].T)
            rows = blocks_of(X, columns, offsets, "rows")[j]
            assert rows.flags.c_contiguous
            np.testing.assert_array_equal(rows, X[:, offsets[j] : offsets[j + 1]])
    assert batches_for(np.array([0, 3, 8])) == (1,)
    assert batches_for(np.arange(33)) == (1, 2, 32)


@pytest.mark.parametrize("graph", ["complete", "star", "lattice"])
def test_products_are_the_laplacian(graph: str) -> None:
    network = build_network(graph, 9)
    Z = np.random.default_rng(0).standard_normal((9, 7))
    expected = 0.3 * (network.laplacian() @ Z)
    for name in {*products_for(network), "dense", "sparse"}:
        found = PRODUCTS[name](network, 0.3, Z.dtype)(Z, np.empty_like(Z))
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_tuner_keeps_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare("float64", "tiles")
    data, network = make_data(N, D, "float64"), build_network("lattice", 4)
    clock = iter([0.5, 0.2, 0.4, 0.3])  # exchange: dense, sparse; passes: batches of one and of four

    def time_block(work: Any, count: int) -> float:
        work(count)
        return next(clock)

    monkeypatch.setattr(fdglm_bench.tune, "time_block", time_block)
    tuned = Tuner(data, network, steps_for(data, network), tries=1).tune()
    assert tuned.variant == Variant("columns", 4, "sparse", N)
    assert tuned.exchange_ms == {f"dense by {N}": 500.0, f"sparse by {N}": 200.0}
    assert tuned.passes_ms == {"columns by 1": 400.0, "columns by 4": 300.0}
    assert not tuned.rival.lam.any() and not tuned.rival.theta.any()


def test_filled_engine_keeps_its_padding_zero() -> None:
    prepare("float64", "tiles")
    data, network = make_data(N, D, "float64"), build_network("ring", 3)
    engine = new_engine(data, network, steps_for(data, network), "tiles", 1)
    fill_engine(engine)
    flat = engine.state.lam.transpose(1, 0, 2).reshape(3, -1)
    assert flat[:, :N].all() and not flat[:, N:].any()


# --- bandwidth and limit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_readers_read_everything(dtype: str) -> None:
    X = np.arange(1000 * 7, dtype=dtype).reshape(10, 100, 7)
    kept = X.size - X.size % 256
    for streams in (1, 2, 4):
        assert Bandwidth(X).total(streams) == pytest.approx(kept * (kept - 1) / 2, rel=1e-6)
    assert Bandwidth(X).measure(1) > 0.0


def test_limit() -> None:
    assert limit_seconds(100, 10, 4, 8, 1e6) == pytest.approx(8 * 100 * (10 + 16) / 1e6)
    assert limit_seconds(100, 10, 1, 4, 1e6) == pytest.approx(4 * 100 * 10 / 1e6)


# --- cases ------------------------------------------------------------------------------------------------


def test_whole_grid() -> None:
    cases = grid(Axes(), 2048, (1, 2))
    assert len(cases) == len(set(cases)) == 2 * 2 * (1 + 4 + 6 + 6)
    assert {case.graph for case in cases if case.agents == 16} == {"complete", "star", "er:0.5", "lattice"}
    assert {case.graph for case in cases if case.agents == 1} == {"none"}
    assert {case.agents for case in grid(Axes(), 100, (1,))} == {1, 16, 64}


def test_chosen_cases() -> None:
    cases = grid(parse_axes("m=64, graph=rgg|ring,dtype=f64,threads=2"), 2048, (2,))
    assert cases == [Case(64, "rgg", "f64", 2), Case(64, "ring", "f64", 2)]
    assert grid(parse_axes("m=1|2,graph=star,dtype=f32"), 9, (1,)) == [
        Case(1, "none", "f32", 1),
        Case(2, "star", "f32", 1),
    ]
    assert {case.agents for case in grid(parse_axes("graph=star"), 2048, (1,))} == {16, 64, 256}
    assert parse_axes("threads=all|1").threads == (0, 1)
    assert parse_axes("") == Axes()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("grph=rgg", "did you mean 'graph'"),
        ("m", "AXIS=VALUE"),
        ("m=", "AXIS=VALUE"),
        ("m=0", "whole number"),
        ("m=x", "whole number"),
        ("m=2,agents=3", "twice"),
        ("graph=rng", "did you mean"),
        ("dtype=f16", "dtype 'f16'"),
        ("m=30", "more agents"),
    ],
)
def test_wrong_cases(text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        check_axes(parse_axes(text), 20, scaling=False)


# --- scaling ----------------------------------------------------------------------------------------------


def test_line_through_times() -> None:
    exact = fit_line([1000, 2000, 4000], [3.0, 5.0, 9.0])
    assert (exact.a, exact.b) == pytest.approx((1.0, 0.002)) and exact.worst < 1e-12
    assert exact.at(3000) == pytest.approx(7.0)
    assert fit_line([1, 2, 4, 8], [1.0, 4.0, 16.0, 64.0]).worst > 0.3


def test_scaling_points() -> None:
    points = scaling_points(400, 256)
    assert len(points) == 24 and {point.agents for point in points} == {1, 64}
    assert sorted({point.n for point in points}) == [100, 200, 300, 400, 600, 800]
    assert {point.agents for point in scaling_points(400, 100)} == {1}


# --- the command ------------------------------------------------------------------------------------------

TINY = ("--quick", "--samples", "64", "--features", "16", "--repeat", "1")
FEW = ("--cases", "m=1|4,graph=star,dtype=f64,threads=1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def parsed(text: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run leaves behind."""
    folder = tmp_path_factory.mktemp("bench")
    result = run(*TINY, *FEW, "--json", "--out", str(folder / "report.json"), "--figures", str(folder / "figures"))
    assert result.exit_code == 0, (result.output, result.exception)
    assert parsed(result.stdout) == parsed((folder / "report.json").read_text())
    progress = [line for line in result.stderr.splitlines() if "of the limit" in line]
    assert len(progress) == 2 and "1/2  m=1 none f64 threads=1" in progress[0]
    return folder


def test_report(folder: Path) -> None:
    report = parsed((folder / "report.json").read_text())
    assert (report["samples"], report["features"], report["rounds"]) == (64, 16, 1)
    assert report["machine"]["versions"]["numpy"] == np.__version__
    assert [(row["agents"], row["graph"]) for row in report["cases"]] == [(1, "none"), (4, "star")]
    for row in report["cases"]:
        assert (row["dtype"], row["threads"], row["schedule"]) == ("f64", 1, "tiles")
        limit = limit_seconds(64, 16, row["agents"], 8, 1e9 * row["bandwidth_gb_s"])
        assert row["limit_ms"] == pytest.approx(1e3 * limit)
        assert row["share_of_limit"] == pytest.approx(row["limit_ms"] / row["solver_ms"])
        assert row["times_numpy"] == pytest.approx(row["numpy_ms"] / row["solver_ms"])
        assert row["numpy"]["difference"] < 1e-12
        assert len(row["rounds"]["solver_ms"]) == 1
    one, four = (row["numpy"] for row in report["cases"])
    assert one["product"] is None and one["exchange_ms"] == {}
    assert four["product"] in ("star", "dense") and four["layout"] == "columns"


def test_table_and_figures_of_a_report(folder: Path, tmp_path: Path) -> None:
    report = folder / "report.json"
    result = run("--redraw", str(report), "--figures", str(tmp_path))
    assert result.exit_code == 0, (result.output, result.exception)
    lines = result.stdout.splitlines()
    assert lines[0] == "n = 64, d = 16, best of 1 rounds"
    header, rows = lines[2:4], lines[4:]
    assert "share of" in header[0] and "the limit" in header[1] and "times" in header[0] and "NumPy" in header[1]
    assert [len(row.split()) for row in rows] == [CELLS, CELLS] and "…" not in result.stdout
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["bench-agents-threads-1.png", "bench-agents-threads-1.svg"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / "figures" / name).read_bytes()
    assert "memory limit" in (tmp_path / names[1]).read_text()


def test_scaling_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdglm_bench.scaling.FACTORS", (0.5, 1.0))
    monkeypatch.setattr("fdglm_bench.scaling.NETWORKS", ((1, "none"), (4, "ring")))
    result = run(*TINY, "--scaling", "--cases", "threads=1", "--figures", str(tmp_path))
    assert result.exit_code == 0, (result.output, result.exception)
    assert "one agent:" in result.stdout and "per 1000 features" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench-scaling.png", "bench-scaling.svg"]


def test_overhead_run(tmp_path: Path) -> None:
    result = run(*TINY, "--overhead", "--cases", "m=4,threads=1", "--json", "--out", str(tmp_path / "o.json"))
    assert result.exit_code == 0, (result.output, result.exception)
    report = parsed(result.stdout)
    assert [row["what"] for row in report["overhead"]] == ["checkpoints", "finite checks"]
    for row in report["overhead"]:
        assert (row["agents"], row["graph"], row["dtype"], row["threads"]) == (4, "complete", "f64", 1)
        assert row["difference"] == pytest.approx(row["with_s"] / row["without_s"] - 1.0)
        assert 0.0 < row["share"] < 1.0
    checkpoints, finite = report["overhead"]
    assert (checkpoints["allowed"], finite["allowed"]) == (0.03, 0.01)
    assert checkpoints["bytes"] > 8 * 64 * 4 * 2  # lambda and v
    assert finite["iterations"] % 100 == 0
    table = run("--redraw", str(tmp_path / "o.json"))
    assert table.exit_code == 0 and "finite checks" in table.stdout and "difference" in table.stdout
    assert isinstance(run("--redraw", str(tmp_path / "o.json"), "--figures", str(tmp_path)).exception, UsageError)
    assert isinstance(run("--overhead", "--scaling").exception, UsageError)


def test_results_are_saved_after_every_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Case] = []
    whole = fdglm_bench.run.measure_case

    def interrupted(data: Data, case: Case, *rest: Any) -> dict[str, Any]:
        measured.append(case)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return whole(data, case, *rest)

    monkeypatch.setattr(fdglm_bench.run, "measure_case", interrupted)
    target = tmp_path / "report.json"
    target.write_text("old")
    result = run(*TINY, *FEW, "--out", str(target), "--force")
    assert result.exit_code != 0 and len(measured) == 2
    assert [row["agents"] for row in parsed(target.read_text())["cases"]] == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--out", "{}/report.json"), "exists; use --force"),
        (("--figures", "{}/figures"), "exists; use --force"),
        (("--figures", "{}/report.json"), "cannot be made"),
        (("--redraw", "{}/report.json", "--quick"), "--redraw measures nothing"),
        (("--scaling",), "threads only"),
    ],
)
def test_refusals_before_any_work(
    folder: Path, arguments: tuple[str, ...], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fdglm_bench.run, "run_cases", lambda *_: pytest.fail("measured"))
    result = run(*TINY, *FEW, *(part.format(folder) for part in arguments))
    assert isinstance(result.exception, UsageError) and fault in str(result.exception)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cases": [{}]}', '{"cases": [1]}'])
def test_what_is_no_report(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    result = run("--redraw", str(tmp_path / "report.json"))
    assert isinstance(result.exception, DataError) and "is not a report" in str(result.exception)
    assert isinstance(run("--redraw", str(tmp_path / "missing.json")).exception, DataError)


def test_too_many_threads() -> None:
    result = run(*TINY, "--cases", "threads=100000")
    assert isinstance(result.exception, UsageError) and "threads must be from 1" in str(result.exception)


@pytest.mark.parametrize("cases", ["m=4|8", "graph=ring|star", "dtype=f64|f32", "threads=1"])
def test_ranks_are_measured_on_one_case(cases: str) -> None:
    result = run("--ranks", "1", "--cases", cases)
    assert isinstance(result.exception, UsageError) and "one m, one graph and one dtype" in str(result.exception)


def test_the_case_of_ranks() -> None:
    assert the_case(parse_axes(""), 2048) == {"agents": 64, "graph": "rgg", "dtype": "float64"}
    assert the_case(parse_axes(""), 8)["agents"] == 8
    chosen = the_case(parse_axes("m=16,graph=star,dtype=f32"), 2048)
    assert chosen == {"agents": 16, "graph": "star", "dtype": "float32"}


def test_ranks_are_compared_with_the_threads_of_the_same_round() -> None:
    def rounds(*times: float) -> list[dict[str, Any]]:
        return [
            {"iteration_ms": time, "memory_gb_s": 30.0 + k, "fast_ms": time + 1.0, "fast_times_paper": 1.0 + k / 10}
            for k, time in enumerate(times)
        ]

    row = compare(rounds(12.0, 9.0, 14.0), rounds(10.0, 6.0, 10.0))
    assert row["iteration_ms"] == 9.0 and row["memory_gb_s"] == 31.0  # the best round, and its memory
    assert row["times_threads"] == 1.5 and row["times_threads_median"] == 1.4
    assert row["fast_ms"] == 10.0 and row["fast_times_paper"] == 1.1
    assert row["rounds"] == rounds(12.0, 9.0, 14.0)


def test_machine_facts_are_json() -> None:
    facts = parsed(json.dumps(machine_facts(), allow_nan=False))
    assert facts["cores"] >= 1 and facts["numba_threads"] >= 1

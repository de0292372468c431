"""Synthetic problems: the distribution, the options, bounded memory, and the files that writing leaves."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from fdglm_cli.generate import command
from fdglm_fast.errors import FdglmError, UsageError
from fdglm_fast.files import atomic_hdf5, atomic_path, atomic_text, printable
from fdglm_fast.generate import generate
from fdglm_fast.hdf5 import data_hash, open_source

DATA = Path(__file__).resolve().parent.parent / "data"


def make(path: Path, n: int = 300, d: int = 8, **options: Any) -> dict[str, np.ndarray]:
    generate(path, n, d, force=True, **options)
    with h5py.File(path) as file:
        return {name: file[name][...] for name in file}


def content_hash(path: Path) -> str:
    with open_source(str(path)) as source:
        return data_hash(source)


def test_default_is_the_problem_of_the_paper(tmp_path: Path) -> None:
    made = make(tmp_path / "a.h5", 4000, 6, seed=3)
    X, y, theta = made["X"], made["y"], made["theta_true"]
    assert X.shape == (4000, 6) and X.dtype == np.float64 and y.shape == (4000,)
    noise = y - X @ theta
    # Means and deviations of 4000 standard normal numbers, five standard errors wide.
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=5 / np.sqrt(4000))
    np.testing.assert_allclose(X.std(axis=0), 1.0, atol=5 / np.sqrt(8000))
    assert abs(noise.mean()) < 5 / np.sqrt(4000) and abs(noise.std() - 1.0) < 5 / np.sqrt(8000)
    np.testing.assert_allclose(np.corrcoef(X.T) - np.eye(6), 0.0, atol=5 / np.sqrt(4000))
    assert abs(np.corrcoef(noise, X[:, 0])[0, 1]) < 5 / np.sqrt(4000)


def test_noise_scales_the_residual_only(tmp_path: Path) -> None:
    loud, silent = make(tmp_path / "a.h5", noise=2.5), make(tmp_path / "b.h5", noise=0.0)
    np.testing.assert_array_equal(loud["X"], silent["X"])
    np.testing.assert_allclose(silent["y"], silent["X"] @ silent["theta_true"], rtol=1e-12)
    one = make(tmp_path / "c.h5")
    np.testing.assert_allclose(loud["y"] - silent["y"], 2.5 * (one["y"] - silent["y"]), atol=1e-10)


def test_sparsity_keeps_k_coefficients(tmp_path: Path) -> None:
    dense, sparse = make(tmp_path / "a.h5", d=20), make(tmp_path / "b.h5", d=20, sparsity=5)
    kept = np.flatnonzero(sparse["theta_true"])
    assert len(kept) == 5
    np.testing.assert_array_equal(sparse["theta_true"][kept], dense["theta_true"][kept])
    assert not make(tmp_path / "c.h5", sparsity=0)["theta_true"].any()


@pytest.mark.parametrize("correlation", [0.8, -0.5])
def test_columns_are_correlated_as_asked(tmp_path: Path, correlation: float) -> None:
    X = make(tmp_path / "a.h5", 6000, 5, correlation=correlation)["X"]
    lags = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    np.testing.assert_allclose(np.cov(X.T), correlation**lags, atol=0.08)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared-hinge"])
def test_labels_follow_the_stated_probability(tmp_path: Path, loss: str) -> None:
    made = make(tmp_path / "a.h5", 8000, 5, loss=loss, correlation=0.4, noise=1.5)
    signal = made["X"] @ made["theta_true"]
    assert set(made["y"].tolist()) == {-1.0, 1.0}
    assert abs(signal.std() - 2.0) < 0.1
    probability = 1 / (1 + np.exp(-signal / 1.5))
    order = np.argsort(signal)
    for part in np.array_split(order, 8):
        error = (made["y"][part] == 1.0).mean() - probability[part].mean()
        assert abs(error) < 5 * 0.5 / np.sqrt(len(part))


def test_labels_without_noise_are_signs(tmp_path: Path) -> None:
    made = make(tmp_path / "a.h5", loss="hinge", noise=0.0)
    np.testing.assert_array_equal(made["y"], np.sign(made["X"] @ made["theta_true"]))


def test_counts_follow_the_stated_rate(tmp_path: Path) -> None:
    made = make(tmp_path / "a.h5", 8000, 5, loss="poisson")
    rate = np.exp(made["X"] @ made["theta_true"])
    y = made["y"]
    assert (y >= 0).all() and (y == np.floor(y)).all() and y.max() < 60
    assert abs(np.log(rate).std() - 0.5) < 0.03
    assert abs(((y - rate) / np.sqrt(rate)).mean()) < 5 / np.sqrt(8000)
    assert abs(((y - rate) ** 2 / rate).mean() - 1.0) < 0.1


def test_f32_is_the_rounded_f64(tmp_path: Path) -> None:
    double, single = make(tmp_path / "a.h5"), make(tmp_path / "b.h5", dtype="f32")
    assert single["X"].dtype == np.float32
    np.testing.assert_array_equal(single["X"], double["X"].astype(np.float32))
    np.testing.assert_array_equal(single["y"], double["y"])


def test_same_options_same_content_and_another_seed_another(tmp_path: Path) -> None:
    generate(tmp_path / "a.h5", 200, 5, seed=1)
    generate(tmp_path / "b.h5", 200, 5, seed=1)
    generate(tmp_path / "c.h5", 200, 5, seed=2)
    assert content_hash(tmp_path / "a.h5") == content_hash(tmp_path / "b.h5")
    assert content_hash(tmp_path / "a.h5") != content_hash(tmp_path / "c.h5")
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


@pytest.mark.parametrize("block_rows", [1, 37, 1024, 100_000])
def test_content_does_not_depend_on_the_size_of_a_write(tmp_path: Path, block_rows: int) -> None:
    options = {"loss": "poisson", "correlation": 0.3}
    whole = make(tmp_path / "a.h5", 1500, 4, **options)
    parts = make(tmp_path / "b.h5", 1500, 4, block_rows=block_rows, **options)
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name])


def test_more_samples_begin_with_the_same_rows(tmp_path: Path) -> None:
    few, many = make(tmp_path / "a.h5", 1100, 4), make(tmp_path / "b.h5", 2500, 4)
    np.testing.assert_array_equal(few["X"], many["X"][:1100])
    np.testing.assert_allclose(few["y"], many["y"][:1100], rtol=1e-13)


def test_memory_stays_bounded(tmp_path: Path) -> None:
    seen: list[int] = []
    tracemalloc.start()
    try:
        generate(tmp_path / "a.h5", 24_000, 200, progress=lambda done, total: seen.append(done))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    block = 1024 * 200 * 8
    assert (tmp_path / "a.h5").stat().st_size > 20 * block
    assert peak < 4 * block
    assert seen[-1] == 24_000 and seen == sorted(seen)


def test_wide_problems_use_lower_blocks(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        made = make(tmp_path / "a.h5", 9, 1 << 20, dtype="f32", noise=0.0)
        tracemalloc.reset_peak()
        generate(tmp_path / "b.h5", 9, 1 << 20, dtype="f32", noise=0.0)
        peak = tracemalloc.get_traced_memory()[1] - sum(each.nbytes for each in made.values())
    finally:
        tracemalloc.stop()
    assert peak < 4 * 8 * (1 << 22)
    assert made["X"].std() == pytest.approx(1.0, abs=0.01)


def test_file_has_checksums_attributes_and_row_chunks(tmp_path: Path) -> None:
    generate(tmp_path / "a.h5", 5000, 300, loss="huber:2", sparsity=7, correlation=0.1, seed=9, noise=0.5)
    with h5py.File(tmp_path / "a.h5") as file:
        assert all(file[name].fletcher32 for name in ("X", "y", "theta_true"))
        height, width = file["X"].chunks
        assert width == 300 and 1024 % height == 0 and height * width * 8 <= 1 << 20
        attributes = dict(file.attrs)
    assert attributes.pop("generator").startswith("fdglm ")
    assert attributes == {
        "samples": 5000,
        "features": 300,
        "loss": "huber:2",
        "noise": 0.5,
        "sparsity": 7,
        "correlation": 0.1,
        "dtype": "f64",
        "seed": 9,
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"samples": 0}, "must be positive"),
        ({"features": -1}, "must be positive"),
        ({"noise": -0.1}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"noise": float("inf")}, "noise"),
        ({"sparsity": 6}, "sparsity must lie between 0 and the 5 features"),
        ({"sparsity": -1}, "sparsity"),
        ({"correlation": 1.0}, "correlation"),
        ({"correlation": float("nan")}, "correlation"),
        ({"dtype": "f16"}, "unknown dtype 'f16'"),
        ({"seed": -1}, "seed"),
        ({"loss": "logistc"}, "did you mean 'logistic'"),
        ({"block_rows": 0}, "block_rows"),
        ({"samples": 10**15}, "only .* are free"),
    ],
)
def test_bad_options_get_a_sentence_and_leave_no_file(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    arguments = {"samples": 10, "features": 5, **options}
    with pytest.raises(UsageError, match=sentence):
        generate(tmp_path / "a.h5", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_existing_output_is_kept_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "a.h5"
    target.write_text("precious")
    with pytest.raises(UsageError, match="exists; use --force"):
        generate(target, 10, 2)
    assert target.read_text() == "precious"
    generate(target, 10, 2, force=True)
    assert h5py.is_hdf5(target)


def test_interrupted_writing_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "a.h5"
    target.write_text("precious")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(target, 3000, 4, force=True, progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]
    assert target.read_text() == "precious"


@pytest.mark.parametrize("limit", [1000, 200_000, 2_000_000])
def test_a_full_disk_is_a_sentence_and_no_crash(tmp_path: Path, limit: int) -> None:
    """HDF5 ends in a segmentation fault at exit when a write fails as the file is closed; see files.py."""
    script = (
        "import resource, sys\n"
        "from fdglm_fast.errors import FdglmError\n"
        "from fdglm_fast.generate import generate\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "try:\n"
        "    generate(sys.argv[1], 20000, 40)\n"
        "except FdglmError as error:\n"
        "    print(error)\n"
        "    sys.exit(error.exit_code)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.h5")], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 2, run.stderr
    assert "cannot be written: File too large." in run.stdout and run.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no/such/folder/a.h5", "folder .* does not exist"),
        ("file/a.h5", "does not exist|cannot be written"),
        ("folder", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("/proc/fdglm-test.h5", "cannot be written"),
        ("n" * 400, "cannot be written"),
        ("nul\0.h5", "not a file name"),
    ],
)
def test_unwritable_outputs_get_a_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for writer in (atomic_path, atomic_text, atomic_hdf5):
        with pytest.raises(UsageError, match=sentence), writer(f"{tmp_path / name}", force=True):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_atomic_files_appear_at_the_end_with_their_suffix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "figure.svg") as temporary:
        assert temporary.suffix == ".svg" and temporary.parent == tmp_path
        temporary.write_text("<svg/>")
        assert not (tmp_path / "figure.svg").exists()
    with atomic_text(tmp_path / "trace.csv") as stream:
        stream.write("ü\n")
    assert (tmp_path / "figure.svg").read_text() == "<svg/>"
    assert (tmp_path / "trace.csv").read_bytes() == "ü\n".encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.svg", "trace.csv"]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with pytest.raises(UsageError, match="exists"), atomic_text(target) as stream:
        stream.write("new")
        target.write_text("other program")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["other program"]


def test_permissions_and_symbolic_links_survive(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    with atomic_text(link, force=True) as stream:
        stream.write("new")
    assert link.is_symlink() and real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_printable_disarms_names() -> None:
    assert printable("a\x1b[2Jb\r\n") == "a\\x1b[2Jb\\r\\n"
    assert printable("\u202eevil\udcff\x9b") == "\\u202eevil\\udcff\\x9b"
    assert printable(b"\xff") == "\\udcff"
    assert printable("grün 日本") == "grün 日本"
    assert printable("x" * 300, 10) == "x" * 10 + "..."


def test_command_prints_a_line_or_json(tmp_path: Path) -> None:
    target = tmp_path / "a.h5"
    arguments = [str(target), "--samples", "50", "--features", "4", "--loss", "logistic", "--seed", "7"]
    run = CliRunner().invoke(command, arguments)
    assert run.exit_code == 0 and "50 x 4 f64" in run.output
    assert CliRunner().invoke(command, [*arguments, "--force", "--quiet"]).output == ""
    report = json.loads(CliRunner().invoke(command, [*arguments, "--force", "--json"]).stdout)
    assert (report["n"], report["d"], report["loss"], report["seed"]) == (50, 4, "logistic", 7)
    assert report["sparsity"] is None and report["bytes"] == target.stat().st_size
    expected = make(tmp_path / "b.h5", 50, 4, loss="logistic", seed=7)
    with h5py.File(target) as file:
        np.testing.assert_array_equal(file["X"][...], expected["X"])


def test_command_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    target = tmp_path / "a.h5"
    base = [str(target), "--samples", "5", "--features", "2"]
    assert CliRunner().invoke(command, [str(target), "--samples", "5"]).exit_code == 2
    assert CliRunner().invoke(command, [*base, "--dtype", "f16"]).exit_code == 2
    target.write_text("precious")
    run = CliRunner().invoke(command, base)
    assert isinstance(run.exception, FdglmError) and run.exception.exit_code == 2
    assert target.read_text() == "precious"


def test_sample_is_what_its_script_makes(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_sample", DATA / "make_sample.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.make(tmp_path / "sample.h5")
    assert (DATA / "sample.h5").stat().st_size < 1 << 20
    with h5py.File(tmp_path / "sample.h5") as new, h5py.File(DATA / "sample.h5") as shipped:
        assert set(new) == set(shipped) == {"X", "y", "theta_true", "feature_names"}
        assert new["feature_names"][...].tolist() == shipped["feature_names"][...].tolist()
        for name in ("X", "y", "theta_true"):
            np.testing.assert_allclose(new[name][...], shipped[name][...], rtol=1e-12, atol=1e-12)

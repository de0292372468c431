"""`fdglm predict` in real processes: what it computes, what it writes, what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli_tools import Array, coefficients, fdglm, snapshot, solve, strict_json, write_h5, write_problem

LABELS = {"squared": "real", "logistic": "binary", "poisson": "count"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem and a result for each loss, and samples without responses."""
    path = tmp_path_factory.mktemp("predict")
    for loss, labels in LABELS.items():
        write_problem(path / f"{loss}.h5", labels=labels)
        solve(path / f"{loss}.h5", "--agents 2 --iterations 40", "--loss", loss, "--out", path / f"{loss}.result.h5")
    with h5py.File(path / "squared.h5", "r") as file:
        write_h5(path / "new.h5", X=file["X"][:5], old__design=file["X"][:5].astype(np.float32))
    return path


def design(folder: Path, loss: str) -> tuple[Array, Array]:
    with h5py.File(folder / f"{loss}.h5", "r") as file:
        return file["X"][...], file["y"][...]


def printed(text: str) -> Array:
    return np.array([float(line) for line in text.splitlines()])


@pytest.mark.parametrize("which", ["average", "last"])
def test_predictions_are_x_theta(folder: Path, which: str) -> None:
    X, y = design(folder, "squared")
    done = fdglm("predict", folder / "squared.result.h5", folder / "squared.h5", "--which", which)
    z = X @ coefficients(folder / "squared.result.h5", which)
    assert done.code == 0
    np.testing.assert_allclose(printed(done.out), z, rtol=1e-13, atol=1e-14)
    assert done.err.startswith("40 predictions") and which in done.err
    assert float(done.err.rpartition(" loss ")[2]) == pytest.approx(np.mean((z - y) ** 2) / 2, rel=1e-9)


def test_probabilities_of_the_logistic_loss(folder: Path) -> None:
    X, y = design(folder, "logistic")
    done = fdglm("predict", folder / "logistic.result.h5", folder / "logistic.h5", "--json")
    z = X @ coefficients(folder / "logistic.result.h5")
    report = strict_json(done.out)
    assert done.code == 0 and done.err == ""
    assert report["samples"] == 40 and report["loss"] == "logistic" and "probability" in report["meaning"]
    np.testing.assert_allclose(report["predictions"], 1 / (1 + np.exp(-z)), rtol=1e-12)
    assert report["mean_loss"] == pytest.approx(np.mean(np.logaddexp(0, -(2 * y - 1) * z)), rel=1e-12)


def test_rates_of_the_poisson_loss(folder: Path) -> None:
    X, y = design(folder, "poisson")
    report = strict_json(fdglm("predict", folder / "poisson.result.h5", folder / "poisson.h5", "--json").out)
    z = X @ coefficients(folder / "poisson.result.h5")
    assert report["meaning"] == "rate"
    np.testing.assert_allclose(report["predictions"], np.exp(z), rtol=1e-12)
    assert report["mean_loss"] == pytest.approx(np.mean(np.exp(z) - y * z), rel=1e-12)


def test_samples_without_responses(folder: Path) -> None:
    X, _ = design(folder, "squared")
    z = X[:5] @ coefficients(folder / "squared.result.h5")
    report = strict_json(fdglm("predict", folder / "squared.result.h5", folder / "new.h5", "--json").out)
    assert report["mean_loss"] is None
    np.testing.assert_allclose(report["predictions"], z, rtol=1e-13, atol=1e-14)
    nested = fdglm("predict", folder / "squared.result.h5", f"{folder / 'new.h5'}::/old", "--x", "design")
    assert nested.code == 0 and "no responses" in nested.err
    np.testing.assert_allclose(printed(nested.out), z, rtol=1e-5, atol=1e-6)  # X is float32 there


def test_better_is_what_the_result_says(folder: Path) -> None:
    report = solve(folder / "squared.h5", "--agents 2 --iterations 40")
    done = fdglm("predict", folder / "squared.result.h5", folder / "squared.h5", "--which better --json")
    assert strict_json(done.out)["which"] == report["better"]


def test_out_hdf5(folder: Path, tmp_path: Path) -> None:
    X, _ = design(folder, "logistic")
    out = tmp_path / "p.h5"
    done = fdglm("predict", folder / "logistic.result.h5", folder / "logistic.h5", "--out", out)
    assert done.code == 0 and done.out.startswith("40 predictions") and done.out.count("\n") == 1 and done.err == ""
    z = X @ coefficients(folder / "logistic.result.h5")
    with h5py.File(out, "r") as file:
        np.testing.assert_allclose(file["z"][...], z, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(file["prediction"][...], 1 / (1 + np.exp(-z)), rtol=1e-12)


def test_out_csv(folder: Path, tmp_path: Path) -> None:
    X, _ = design(folder, "poisson")
    out = tmp_path / "p.csv"
    done = fdglm("predict", folder / "poisson.result.h5", folder / "poisson.h5", "--json", "--out", out)
    assert done.code == 0 and "predictions" not in strict_json(done.out)
    with open(out, newline="") as stream:
        rows = list(csv.DictReader(stream))
    z = X @ coefficients(folder / "poisson.result.h5")
    np.testing.assert_allclose([float(row["z"]) for row in rows], z, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], np.exp(z), rtol=1e-12)


def test_what_is_refused(folder: Path) -> None:
    write_h5(folder / "narrow.h5", X=np.ones((3, 4)))
    with h5py.File(folder / "fake.h5", "w") as file:
        file.attrs["format"] = "fdglm-result"
    (folder / "old.csv").write_text("keep me")
    result, data = "squared.result.h5", "squared.h5"
    wanted = {
        (result, "narrow.h5"): (3, "4 columns", "6 coefficients"),
        (data, data): (3, "not a result"),
        ("fake.h5", data): (3, "no vector 'theta_average'"),
        ("none.h5", data): (3, "'none.h5' does not exist"),
        (result, "none.h5"): (3, "'none.h5' does not exist"),
        (result, data, "--out", "old.csv"): (2, "exists", "--force"),
        (result, data, "--out", data, "--force"): (2, "it is an input"),
        (result, data, "--which", "best"): (2, "'best'"),
    }
    before = snapshot(folder)
    for arguments, (code, *words) in wanted.items():
        done = fdglm("predict", *arguments, cwd=folder)
        assert done.code == code and done.out == "", (arguments, done)
        assert done.err.startswith("fdglm: error: ") and done.err.count("\n") == 1
        assert all(each in done.err for each in words), done.err
    assert snapshot(folder) == before


def test_labels_that_do_not_fit_the_loss(folder: Path) -> None:
    done = fdglm("predict", folder / "logistic.result.h5", folder / "squared.h5")
    assert done.code == 3 and done.out == "" and "needs labels" in done.err

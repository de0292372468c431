"""Two data sets that scikit-learn ships, as HDF5 problems: nothing is downloaded.

    breast_cancer.h5   569 x 30, labels: for logistic regression
    diabetes.h5        442 x 10, real response: for the lasso

Columns are standardised (mean zero, deviation one), and so is the real response; there is no intercept, which centring
makes unnecessary for the lasso. Usage: python bench/real_data.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from fdglm_fast.files import atomic_hdf5

Array = npt.NDArray[np.float64]


def standardised(values: Array) -> Array:
    """Each column with mean zero and deviation one."""
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0))


def write_problem(path: Path, X: Array, y: Array, names: list[str]) -> None:
    """A problem file as `fdglm solve` reads it."""
    with atomic_hdf5(path, force=True) as file:
        file.create_dataset("X", data=X, fletcher32=True)
        file.create_dataset("y", data=y, fletcher32=True)
        file.create_dataset("feature_names", data=names, dtype=h5py.string_dtype())


def main(folder: str) -> None:
    from sklearn.datasets import load_breast_cancer, load_diabetes

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    cancer, diabetes = load_breast_cancer(), load_diabetes()
    labels = np.where(cancer.target == 1, 1.0, -1.0)
    write_problem(target / "breast_cancer.h5", standardised(cancer.data), labels, list(cancer.feature_names))
    response = standardised(diabetes.target.astype(np.float64))
    write_problem(target / "diabetes.h5", standardised(diabetes.data), response, list(diabetes.feature_names))
    for name in ("breast_cancer.h5", "diabetes.h5"):
        print(target / name)


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["."])

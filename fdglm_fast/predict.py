"""Predictions of a stored result for new samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError
from fdglm_fast.losses import LOGISTIC, POISSON, Loss, parse_loss

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Linear predictors z = X theta, what the loss makes of them, and the mean loss where responses are known."""

    z: Array
    values: Array
    meaning: str
    which: str
    loss: Loss
    mean_loss: float | None

    def sentence(self) -> str:
        known = (
            "no responses in the file"
            if self.mean_loss is None
            else f"mean {self.loss.spec} loss {self.mean_loss:.10g}"
        )
        return f"{len(self.values)} predictions ({self.meaning}) of the {self.which} coefficients; {known}"

    def as_json(self, with_values: bool = True) -> dict[str, Any]:
        overflow = self.mean_loss is None or not math.isfinite(self.mean_loss)
        report: dict[str, Any] = {
            "samples": len(self.values),
            "which": self.which,
            "meaning": self.meaning,
            "loss": self.loss.spec,
            "mean_loss": None if overflow else self.mean_loss,
        }
        if with_values:
            report["predictions"] = self.values.tolist()
        return report


def predict(
    result: str, data: str, which: str = "average", *, x: str = "X", y: str = "y", allow_filters: bool = False
) -> Predictions:
    """Apply the coefficients of a result file to the samples of a data file, block by block."""
    from fdglm_fast.hdf5 import open_source
    from fdglm_fast.result import read_result

    stored = read_result(result)
    if which == "better":
        which = stored.run.get("better") or "average"
    theta = stored.theta_average if which == "average" else stored.theta_last
    loss = parse_loss(str(stored.run.get("loss", "squared")))
    with open_source(data, x, y, allow_filters) as source:
        if source.d != len(theta):
            raise DataError(
                f"{source.describe_design()} has {source.d} columns, but the result {len(theta)} coefficients."
            )
        z = np.concatenate([block @ theta for _, block in source.blocks(np.float64)])
        response = source.response()
    if not np.isfinite(z).all():
        raise DataError("the predictions are not finite: the coefficients or the samples are too large.")
    mean = None if response is None else _mean_loss(loss, z, loss.prepare_response(response))
    return Predictions(z, *_values(loss, z), which, loss, mean)


def _values(loss: Loss, z: Array) -> tuple[Array, str]:
    if loss.code == LOGISTIC:
        return np.where(z >= 0, 1.0, np.exp(-np.abs(z))) / (1.0 + np.exp(-np.abs(z))), "probability of label 1"
    if loss.code == POISSON:
        return np.exp(np.minimum(z, 709.0)), "rate"
    return z, "linear predictor"


def _mean_loss(loss: Loss, z: Array, y: Array) -> float:
    from fdglm_fast.kernels.compile import prepare_sets
    from fdglm_fast.reference.pointwise import values

    prepare_sets(["values"])
    return float(np.mean(values(loss.code, loss.parameter, z, y)))


def write_predictions(path: str, found: Predictions, force: bool = False) -> None:
    """HDF5 (`prediction`, `z`) for names that end in .h5 or .hdf5, else CSV."""
    from fdglm_fast.files import atomic_hdf5, atomic_text

    if path.endswith((".h5", ".hdf5")):
        with atomic_hdf5(path, force) as file:
            file.attrs["meaning"] = found.meaning
            file.create_dataset("prediction", data=found.values, fletcher32=True)
            file.create_dataset("z", data=found.z, fletcher32=True)
        return
    with atomic_text(path, force) as stream:
        stream.write("prediction,z\n")
        stream.writelines(
            f"{value!r},{z!r}\n" for value, z in zip(found.values.tolist(), found.z.tolist(), strict=True)
        )

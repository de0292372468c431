"""The losses: their names, their constants for the theorem, and the responses they accept.

The formulas themselves are compiled and live in `fdglm_fast.kernels.losses`; this module stays free of Numba
so that a wrong name on the command line is reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fdglm_fast.errors import DataError, UsageError, unknown_name

# Codes by which compiled code tells the losses apart.
SQUARED, HUBER, ABSOLUTE, QUANTILE, LOGISTIC, HINGE, SQUARED_HINGE, POISSON = range(8)

Labels = Literal["real", "binary", "count"]


@dataclass(frozen=True)
class Loss:
    """A convex loss(z, y) of the prediction z = x' theta and the response y.

    `lipschitz` is the rho of |loss'(z)| <= rho, `sqrt_lipschitz` that of |loss'(z)| <= rho sqrt(loss(z));
    None where no theorem is claimed for that class. `smooth`: differentiable with a continuous slope.
    """

    name: str
    code: int
    parameter: float
    smooth: bool
    lipschitz: float | None
    sqrt_lipschitz: float | None
    labels: Labels

    @property
    def curvature(self) -> float | None:
        """The largest loss''; None where there is none, or no bound."""
        return {"squared": 1.0, "huber": 1.0, "logistic": 0.25, "squared-hinge": 2.0}.get(self.name)

    @property
    def spec(self) -> str:
        """The string that `parse_loss` turns into this loss."""
        return f"{self.name}:{show_number(self.parameter)}" if self.name in _PARAMETRIC else self.name

    def prepare_response(self, y: ArrayLike) -> NDArray[np.float64]:
        """A float64 copy of y that fits the loss: binary labels become -1 and +1, counts are checked."""
        given = np.asarray(y)
        if given.dtype.kind not in "biuf":
            raise DataError(f"y must hold real numbers, but its type is {given.dtype}.")
        if given.ndim != 1 or given.size == 0:
            raise DataError(f"y must be a non-empty vector, but its shape is {given.shape}.")
        response = given.astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(response))
        if wrong.size:
            raise DataError(f"y[{wrong[0]}] is {response[wrong[0]]}, not a finite number.")
        if self.labels == "binary":
            return _signs(self.name, response)
        if self.labels == "count":
            _check_counts(self.name, response)
        return response


def _signs(name: str, response: NDArray[np.float64]) -> NDArray[np.float64]:
    """Labels {0, 1} or {-1, 1} as -1 and +1."""
    low = -1.0 if (response == -1.0).any() else 0.0
    wrong = np.flatnonzero((response != 1.0) & (response != low))
    if wrong.size:
        value = show_number(response[wrong[0]])
        beside = " beside labels that are -1" if value == "0" else ""
        raise DataError(f"{name} loss needs labels 0 and 1 or -1 and 1, but y[{wrong[0]}] is {value}{beside}.")
    if (response == response[0]).all():
        raise DataError(f"{name} loss needs two classes, but every label in y is {show_number(response[0])}.")
    return np.where(response == 1.0, 1.0, -1.0)


def _check_counts(name: str, response: NDArray[np.float64]) -> None:
    wrong = np.flatnonzero((response < 0.0) | (response != np.floor(response)))
    if wrong.size:
        value = show_number(response[wrong[0]])
        raise DataError(f"{name} loss needs counts (nonnegative integers), but y[{wrong[0]}] is {value}.")


def _huber(k: float) -> Loss:
    if k <= 0.0:
        raise UsageError(f"the threshold K of loss 'huber:K' must be positive, but it is {show_number(k)}.")
    # Both classes: with e = z - y, slope^2 is e^2 = 2 loss inside, and k^2 <= 2 (k|e| - k^2/2) outside.
    return Loss("huber", HUBER, k, True, k, math.sqrt(2.0), "real")


def _quantile(q: float) -> Loss:
    if not 0.0 < q < 1.0:
        raise UsageError(f"the level Q of loss 'quantile:Q' must lie in (0, 1), but it is {show_number(q)}.")
    return Loss("quantile", QUANTILE, q, False, max(q, 1.0 - q), None, "real")


_PLAIN: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("squared", SQUARED, 0.0, True, None, math.sqrt(2.0), "real"),
        Loss("absolute", ABSOLUTE, 0.0, False, 1.0, None, "real"),
        Loss("logistic", LOGISTIC, 0.0, True, 1.0, None, "binary"),
        Loss("hinge", HINGE, 0.0, False, 1.0, None, "binary"),
        Loss("squared-hinge", SQUARED_HINGE, 0.0, True, None, 2.0, "binary"),
        Loss("poisson", POISSON, 0.0, True, None, None, "count"),
    )
}
_PARAMETRIC: dict[str, tuple[str, Callable[[float], Loss]]] = {
    "huber": ("huber:K", _huber),
    "quantile": ("quantile:Q", _quantile),
}
LOSS_NAMES: tuple[str, ...] = (*_PLAIN, *_PARAMETRIC)


def parse_loss(spec: str) -> Loss:
    """The loss named by NAME or NAME:PARAMETER, as in `squared`, `huber:1.345`, `quantile:0.9`."""
    name, colon, text = spec.partition(":")
    if name in _PLAIN:
        if colon:
            raise UsageError(f"loss '{name}' takes no parameter, but '{spec}' gives one.")
        return _PLAIN[name]
    if name in _PARAMETRIC:
        form, make = _PARAMETRIC[name]
        if not text:
            raise UsageError(f"loss '{name}' needs its parameter: write {form}.")
        return make(parse_number("loss", spec, text))
    raise unknown_name("loss", name, LOSS_NAMES)


def parse_number(kind: str, spec: str, text: str) -> float:
    """The finite number that `text` stands for, a part of the specification `spec` of a loss or a penalty."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"'{text}' in {kind} '{spec}' is not a finite number.")
    return number


def show_number(number: float) -> str:
    """The shortest text that reads back as the same number: 2 rather than 2.0."""
    return repr(float(number)).removesuffix(".0")

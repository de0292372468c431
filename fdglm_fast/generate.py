"""Synthetic problems, written block by block, so that a file may be larger than memory.

The default is the problem of the paper: X, theta and e standard normal, y = X theta + noise e. What is drawn
depends on the options alone: rows come in blocks whose height follows from the number of features, and every
block has random streams of its own, so neither memory nor the size of a write changes the content; a file
with more samples begins with the same rows. A file in f32 holds the X of the f64 file, rounded, and its y.

    columns      correlation R: x_1 = z_1, x_j = R x_{j-1} + sqrt(1 - R^2) z_j, so corr(x_i, x_j) = R^|i-j|
    theta        standard normal; sparsity K keeps K of the coefficients, drawn at random
    real y       x'theta + noise e   (squared, huber, absolute, quantile)
    labels y     P(y = 1) = 1 / (1 + exp(-x'theta/noise)), else y = -1, with theta scaled to give x'theta the
                 standard deviation 2; noise 0: y = sign(x'theta)   (logistic, hinge, squared-hinge)
    counts y     y ~ Poisson(exp(x'theta)), with theta scaled to give x'theta the deviation 1 / (1 + noise)
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fdglm_fast import __version__
from fdglm_fast.errors import UsageError, unknown_name
from fdglm_fast.files import atomic_hdf5, check_written
from fdglm_fast.losses import parse_loss

Array = NDArray[np.float64]

_DTYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
_MOST_ROWS = 1024  # height of a block of random numbers, and its most entries; part of what a seed means
_MOST_ENTRIES = 1 << 22
_CHUNK_BYTES = 1 << 20
_LABEL_DEVIATION = 2.0
# One random stream for each purpose.
_THETA, _DESIGN, _RESPONSE = range(3)


@dataclass(frozen=True)
class _Options:
    """What determines the content of a file; recorded in it as attributes."""

    samples: int
    features: int
    loss: str
    noise: float
    sparsity: int
    correlation: float
    dtype: str
    seed: int

    def __post_init__(self) -> None:
        if self.samples < 1 or self.features < 1:
            raise UsageError(f"samples and features must be positive, not {self.samples} and {self.features}.")
        if not 0.0 <= self.noise < math.inf:
            raise UsageError(f"noise must be a finite number, zero or positive, not {self.noise}.")
        if not 0 <= self.sparsity <= self.features:
            raise UsageError(f"sparsity must lie between 0 and the {self.features} features, not {self.sparsity}.")
        if not -1.0 < self.correlation < 1.0:
            raise UsageError(f"correlation must lie strictly between -1 and 1, not {self.correlation}.")
        if self.dtype not in _DTYPES:
            raise unknown_name("dtype", self.dtype, _DTYPES)
        if self.seed < 0:
            raise UsageError(f"seed must be zero or positive, not {self.seed}.")
        parse_loss(self.loss)

    @property
    def labels(self) -> str:
        return parse_loss(self.loss).labels

    @property
    def block_rows(self) -> int:
        return max(1, min(_MOST_ROWS, _MOST_ENTRIES // self.features))

    def stream(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


def generate(
    path: str | os.PathLike[str],
    samples: int,
    features: int,
    *,
    loss: str = "squared",
    noise: float = 1.0,
    sparsity: int | None = None,
    correlation: float = 0.0,
    dtype: str = "f64",
    seed: int = 0,
    force: bool = False,
    block_rows: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a synthetic problem (datasets X, y, theta_true; the options as attributes) to a new file.

    sparsity: number of nonzero coefficients (None: all). block_rows: at most so many rows are written at a
    time; it changes no number. progress(rows done, rows) is called after every block.
    """
    kept = features if sparsity is None else sparsity
    options = _Options(samples, features, loss, float(noise), kept, float(correlation), dtype, seed)
    if block_rows is not None and block_rows < 1:
        raise UsageError(f"block_rows must be positive, not {block_rows}.")
    needed = samples * (features * _DTYPES[dtype].itemsize + 8) + 8 * features
    with atomic_hdf5(path, force, needed) as file:
        theta = _coefficients(options)
        design, response = _create(file, options, theta)
        step = block_rows or options.block_rows
        for start, x_block, y_block in _blocks(options, theta):
            for first in range(0, len(y_block), step):
                part = slice(first, first + step)
                rows = slice(start + first, start + min(first + step, len(y_block)))
                design[rows] = x_block[part]
                response[rows] = y_block[part]
            check_written(file)
            if progress is not None:
                progress(start + len(y_block), samples)


def _create(file: h5py.File, options: _Options, theta: Array) -> tuple[h5py.Dataset, h5py.Dataset]:
    """The datasets, checksummed, X in chunks of whole rows, about 1 MiB each, unless one row is longer."""
    file.attrs["generator"] = f"fdglm {__version__}"
    for name, value in asdict(options).items():
        file.attrs[name] = value
    dtype = _DTYPES[options.dtype]
    width = min(options.features, _CHUNK_BYTES // dtype.itemsize)
    height = max(1, _CHUNK_BYTES // (width * dtype.itemsize))
    if height < options.block_rows:
        height = 1 << (height.bit_length() - 1)  # a power of two divides the usual block of 1024 rows
    height = min(height, options.block_rows, options.samples)
    shape = (options.samples, options.features)
    design = file.create_dataset("X", shape, dtype, chunks=(height, width), fletcher32=True)
    longest = _CHUNK_BYTES // 8
    y_chunk, theta_chunk = (min(options.samples, longest),), (min(options.features, longest),)
    response = file.create_dataset("y", shape[:1], np.float64, chunks=y_chunk, fletcher32=True)
    file.create_dataset("theta_true", data=theta, chunks=theta_chunk, fletcher32=True)
    return design, response


def _coefficients(options: _Options) -> Array:
    rng = options.stream(_THETA)
    theta = rng.standard_normal(options.features)
    if options.sparsity < options.features:
        dropped = rng.permutation(options.features)[options.sparsity :]
        theta[dropped] = 0.0
    if options.labels == "real" or options.sparsity == 0:
        return theta
    deviation = _signal_deviation(theta, options.correlation)
    wanted = _LABEL_DEVIATION if options.labels == "binary" else 1.0 / (1.0 + options.noise)
    return theta * (wanted / deviation)


def _signal_deviation(theta: Array, correlation: float) -> float:
    """The standard deviation of x'theta: sqrt(sum_ij theta_i theta_j R^|i-j|), in one pass over theta."""
    total, carried = 0.0, 0.0  # carried_j = sum_{i<j} theta_i R^(j-i)
    for value in theta.tolist():
        total += value * (value + 2.0 * carried)
        carried = correlation * (carried + value)
    return math.sqrt(max(total, 0.0))


def _blocks(options: _Options, theta: Array) -> Iterator[tuple[int, Array, Array]]:
    """(first row, rows of X, their y), block by block."""
    for b, start in enumerate(range(0, options.samples, options.block_rows)):
        rows = min(options.block_rows, options.samples - start)
        x_block = options.stream(_DESIGN, b).standard_normal((rows, options.features))
        if options.correlation != 0.0:
            _correlate(x_block, options.correlation)
        yield start, x_block, _respond(options, options.stream(_RESPONSE, b), x_block @ theta)


def _correlate(z: Array, correlation: float) -> None:
    """x_1 = z_1, x_j = R x_{j-1} + sqrt(1 - R^2) z_j along every row, in place."""
    scale = math.sqrt(1.0 - correlation * correlation)
    columns = np.ascontiguousarray(z.T)
    for j in range(1, len(columns)):
        columns[j] *= scale
        columns[j] += correlation * columns[j - 1]
    z[...] = columns.T


def _respond(options: _Options, rng: np.random.Generator, signal: Array) -> Array:
    if options.labels == "real":
        return signal + options.noise * rng.standard_normal(len(signal))
    if options.labels == "count":
        return rng.poisson(np.exp(signal)).astype(np.float64)
    if options.noise == 0.0:
        return np.where(signal > 0.0, 1.0, -1.0)
    # u < 1/(1 + exp(-s)) is log(u/(1-u)) < s, which cannot overflow; u = 0 gives -inf < s.
    u = rng.random(len(signal))
    with np.errstate(divide="ignore"):
        return np.where(np.log(u) - np.log1p(-u) < signal / options.noise, 1.0, -1.0)

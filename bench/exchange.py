"""The rival's exchange: v and lambda take in what the neighbours said.

    z = t L lambda,   v+ = v - z,   u = 2 v+ - v = v+ - z,   lambda += s L u

lambda and v are (m, n): the Laplacian mixes agents and never samples, so the work is done `chunk` samples at a time,
and z stays in cache. The factors t and s go into the Laplacian once. A product with L is a closed form where the graph
has one, else SciPy's sparse or BLAS's dense product.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fdglm_fast.network import Network

Matrix = npt.NDArray[Any]


class Product(Protocol):
    """out = c L Z, for a fixed c."""

    def __call__(self, Z: Matrix, out: Matrix) -> Matrix: ...


def complete_product(network: Network, c: float, dtype: npt.DTypeLike) -> Product:
    """(L z)_j = m z_j - sum z."""
    m = network.agents

    def product(Z: Matrix, out: Matrix) -> Matrix:
        total = Z.sum(axis=0)
        total *= c
        np.multiply(Z, c * m, out=out)
        out -= total
        return out

    return product


def star_product(network: Network, c: float, dtype: npt.DTypeLike) -> Product:
    """(L z)_1 = m z_1 - sum z,   (L z)_j = z_j - z_1."""
    m = network.agents

    def product(Z: Matrix, out: Matrix) -> Matrix:
        np.subtract(Z[1:], Z[0], out=out[1:])
        np.multiply(Z[0], m, out=out[0])
        out[0] -= Z.sum(axis=0)
        out *= c
        return out

    return product


def dense_product(network: Network, c: float, dtype: npt.DTypeLike) -> Product:
    """BLAS: gemm with the Laplacian as a full matrix."""
    L = np.ascontiguousarray((c * network.laplacian()).toarray(), dtype)

    def product(Z: Matrix, out: Matrix) -> Matrix:
        return np.matmul(L, Z, out=out)

    return product


def sparse_product(network: Network, c: float, dtype: npt.DTypeLike) -> Product:
    """SciPy: rows of Z added up along the rows of a CSR matrix. It cannot write into `out`."""
    L = (c * network.laplacian()).tocsr().astype(dtype)

    def product(Z: Matrix, out: Matrix) -> Matrix:
        return np.asarray(L @ Z)

    return product


PRODUCTS = {
    "complete": complete_product,
    "star": star_product,
    "dense": dense_product,
    "sparse": sparse_product,
}


def products_for(network: Network) -> tuple[str, ...]:
    """The products worth trying. A closed form beats the sparse one; the dense one has threads and may win."""
    if network.unit_weights and network.spec in ("complete", "star"):
        return (network.spec, "dense")
    return ("dense", "sparse")


class Exchange:
    """v and lambda of all agents brought forward by what neighbours exchange, in place."""

    def __init__(self, network: Network, product: str, chunk: int, t: float, s: float, lam: Matrix, v: Matrix) -> None:
        self._lam, self._v, self._chunk = lam, v, chunk
        self._to_v = PRODUCTS[product](network, t, lam.dtype)
        self._to_lam = PRODUCTS[product](network, s, lam.dtype)
        self._z = np.empty((lam.shape[0], chunk), lam.dtype)
        self._q = np.empty_like(self._z)

    def __call__(self) -> None:
        n = self._lam.shape[1]
        for start in range(0, n, self._chunk):
            lam, v = self._lam[:, start : start + self._chunk], self._v[:, start : start + self._chunk]
            width = lam.shape[1]
            z = self._to_v(lam, self._z[:, :width])
            v -= z
            u = np.subtract(v, z, out=z)
            lam += self._to_lam(u, self._q[:, :width])

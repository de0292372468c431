"""The grid on which sums over agents are exact, and so independent of their order and of who holds which agent.

|X_j theta_j| <= max|X_j| ||theta_j||_1 on every sample. With 2^e above the largest of these bounds, every part times
scale = 2^(b - e) is below 2^b in size; whole numbers of b bits for each of m agents add up in 64 bits when
b = 61 - ceil(log2 m). The fraction that is cut off goes into a second whole number of b bits, so that nothing that a
double can hold beside the largest part is lost.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
LARGEST_EXPONENT = 1000  # of the scale: it and its inverse are normal numbers


def bits_for(agents: int) -> int:
    """b: bits of a part."""
    return 61 - (agents - 1).bit_length()


def sum_grid(bounds: Array, agents: int) -> Array:
    """(scale, 2^b) for each bound (K,) on the parts of `agents` agents; NaN where the bound is no number."""
    bits = bits_for(agents)
    exponent = np.frexp(np.where(np.isfinite(bounds), bounds, 1.0))[1] + 1  # one more for the rounding of the bound
    scale = np.ldexp(1.0, np.clip(bits - exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    return np.stack([np.where(np.isfinite(bounds), scale, np.nan), np.full(bounds.shape, np.ldexp(1.0, bits))], axis=-1)

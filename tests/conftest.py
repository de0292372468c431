"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread() -> Iterator[None]:
    """Threads of BLAS that spin beside those of the kernels can make either 200 times slower."""
    import scipy.linalg  # noqa: F401, the limit holds for libraries that are loaded
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield

"""Memory that an agent needs, in bytes, on a machine of its own."""

from __future__ import annotations

FLOAT = 8


def agent_memory(n: int, d_j: int, degree: int, itemsize: int, *, first: bool, method: str = "paper") -> dict[str, int]:
    """design X_j; vectors lambda_j, v_j, u_j and the sum being formed; inbox one vector for each neighbour;
    coefficients theta_j, its running sum, w_j and X_j' lambda_j in double precision; response y of agent 1.

    The fast method keeps anchors of lambda_j, of p_j, of theta_j and of X_j' lambda_j besides, and c.
    """
    n, d_j, degree = int(n), int(d_j), int(degree)
    single, fast = degree == 0, method == "fast"
    anchors = (1 if single else 3) if fast else 0
    return {
        "design": itemsize * n * d_j,
        "vectors": itemsize * n * ((2 if single else 4) + anchors),
        "inbox": itemsize * n * degree,
        "coefficients": (6 if fast else 4) * FLOAT * d_j,
        "response": FLOAT * n if first else 0,
    }

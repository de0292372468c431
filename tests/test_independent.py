"""The whole command line against a dense NumPy implementation that shares nothing with the package.

Data are written by h5py and the weighted edge list by networkx, as a user would have them. NumPy finds chi, D, delta
and R its own way (SVD, eigenvalues, lstsq), applies Theorem 1 and the iteration with the dense Laplacian, and its
objectives must agree with the trace at every one of 200 iterations.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import networkx as nx
import numpy as np
import pytest

SAMPLES, FEATURES, ITERATIONS = 150, 37, 200


def weighted_graph(agents: int, folder: Path) -> tuple[np.ndarray, Path]:
    """A connected random graph with weights from 0.5 to 2, as a Laplacian and as a file."""
    rng = np.random.default_rng(agents)
    graph = nx.connected_watts_strogatz_graph(agents, 4, 0.3, seed=agents)
    for i, j in graph.edges:
        graph[i][j]["weight"] = float(rng.uniform(0.5, 2.0))
    path = folder / "edges.txt"
    nx.write_weighted_edgelist(graph, path)
    return nx.laplacian_matrix(graph, nodelist=range(agents)).toarray().astype(float), path


def theorem_steps(X: np.ndarray, L: np.ndarray, radius: float) -> tuple[float, float]:
    n, m = len(X), len(L)
    chi, spectrum = np.linalg.norm(X, 2), np.linalg.eigvalsh(L)
    D = spectrum[-1] if m > 1 else 0.0
    spread = np.sqrt(1 + 2 * chi**2 / spectrum[1] ** 2) if m > 1 else 1.0
    sigma = np.sqrt(m) * n**1.5 * np.sqrt(2) / ((chi + D) * radius * spread)
    return sigma, n**2 / ((chi + D) ** 2 * sigma)


def dense_iteration(X: np.ndarray, y: np.ndarray, L: np.ndarray, steps: tuple[float, float]) -> dict[str, list[float]]:
    """Chambolle-Pock with matrices: rows of V and Lam are the agents' vectors."""
    sigma, tau = steps
    n, m = len(X), len(L)
    s, t = sigma / n, tau / n
    blocks = np.array_split(np.arange(X.shape[1]), m)
    theta, total = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    V, Lam = np.zeros((m, n)), np.zeros((m, n))
    trace: dict[str, list[float]] = {"average": [], "last": []}
    for k in range(1, ITERATIONS + 1):
        gradient = np.concatenate([X[:, block].T @ Lam[j] for j, block in enumerate(blocks)])
        new = theta - t * gradient
        V_new = V - t * (L @ Lam)
        ahead = 2 * new - theta
        Lam = Lam + s * (L @ (2 * V_new - V) + np.stack([X[:, block] @ ahead[block] for block in blocks]))
        Lam[0] = (Lam[0] - s * y) / (1 + s)
        theta, V = new, V_new
        total += theta
        for name, point in (("average", total / k), ("last", theta)):
            trace[name].append(float(np.sum((X @ point - y) ** 2)) / (2 * n))
    return trace


def run(*arguments: str) -> dict[str, Any]:
    command = [str(Path(sys.executable).with_name("fdglm")), "solve", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("agents", [1, 7, 16])
def test_traces_agree_with_an_independent_implementation(agents: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((SAMPLES, FEATURES)) * rng.uniform(0.5, 2.0, FEATURES)
    y = X @ rng.standard_normal(FEATURES) + rng.standard_normal(SAMPLES)
    data = tmp_path / "data.h5"
    with h5py.File(data, "w") as file:
        file["X"], file["y"] = X, y
    L, options = np.zeros((1, 1)), []
    if agents > 1:
        L, edges = weighted_graph(agents, tmp_path)
        options = ["--graph", f"file:{edges}", "--weights", "file"]
    found = run(
        str(data),
        "--agents",
        str(agents),
        *options,
        "--iterations",
        str(ITERATIONS),
        "--record",
        "every:1",
        "--reference",
    )
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    steps = theorem_steps(X, L, float(np.linalg.norm(best)))
    assert found["steps"]["sigma"] == pytest.approx(steps[0], rel=1e-10)
    assert found["steps"]["tau"] == pytest.approx(steps[1], rel=1e-10)
    expected = dense_iteration(X, y, L, steps)
    for name in ("average", "last"):
        objectives = [record[f"objective_{name}"] for record in found["trace"]]
        np.testing.assert_allclose(objectives, expected[name], rtol=1e-9)

"""Everything that `fdglm cost` knows about an iteration, as one object for JSON and for the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.check import check, count_and_fit
from fdglm_fast.cost.executed import executed
from fdglm_fast.cost.figures import Figures, figures
from fdglm_fast.cost.fitting import Fit
from fdglm_fast.cost.model import fast_cost, look_cost, messages, normalized_cost, paper_cost, restart_cost
from fdglm_fast.cost.setting import Setting
from fdglm_fast.cost.storage import agent_memory
from fdglm_fast.cost.timing import Link, iteration_seconds


def cost_report(
    setting: Setting,
    links: dict[str, Link],
    *,
    run_kernels: bool = True,
    verify: bool = False,
    everyone: bool = True,
    notify: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The report; `run_kernels` adds what the kernels execute, `verify` the verdict, `everyone` the single agents."""
    fit, instance, outright = count_and_fit(setting)
    done = executed(setting, notify) if run_kernels else None
    found = figures(setting, fit, done)
    return {
        **describe(setting),
        "operations": _operations(setting, fit, found, done.padded_rows if done else None, everyone),
        "paper": _paper(setting),
        "messages": _messages(setting),
        "memory": _memory(setting),
        "time": {name: _time(setting, link) for name, link in links.items()},
        "check": check(setting, fit, found, instance, outright).as_json() if verify else None,
    }


def describe(setting: Setting) -> dict[str, Any]:
    network = setting.network
    return {
        "data": {"path": setting.path, "n": setting.n, "d": setting.d, "dtype": setting.dtype.name},
        "agents": setting.agents,
        "graph": {
            "spec": None if setting.single else network.spec,
            "seed": network.seed,
            "edges": len(network.edges),
            "max_degree": network.max_degree,
            "different_weights": setting.weighted,
        },
        "method": setting.method,
        "loss": setting.loss.spec,
        "penalty": setting.penalty.spec,
        "reg": setting.penalty.reg,
    }


def _operations(setting: Setting, fit: Fit, found: Figures, padded: int | None, everyone: bool) -> dict[str, Any]:
    busiest = int(np.argmax(setting.degrees))

    def one(j: int) -> dict[str, Any]:
        sizes = {"index": j, "d_j": int(setting.sizes[j]), "degree": int(setting.degrees[j])}
        return {**sizes, "phases": found.table(j)}

    steps = fit.dual_steps
    return {
        "polynomials": {phase: None if p is None else str(p) for phase, p in fit.phases.items()},
        "doublings": {phase: None if p is None else str(p) for phase, p in fit.doublings.items()},
        "max_degree_agent": one(busiest),
        "agents": [one(j) for j in range(setting.agents)] if everyone else None,
        "total": found.table(),
        "dual_exact": found.dual_exact,
        "dual_per_sample": {"min": min(steps), "mean": sum(steps) / len(steps), "max": max(steps)} if steps else None,
        "samples_executed": padded,
    }


def _paper(setting: Setting) -> dict[str, Any]:
    """The paper's formula, and beside it that of the fast method where that is asked for."""
    sizes = setting.n, setting.d, setting.agents, setting.max_degree
    single = paper_cost(setting.n, setting.d, 1, 0)
    found: dict[str, Any] = {
        "per_agent": paper_cost(*sizes),
        "single_agent": single,
        "normalized": normalized_cost(*sizes),
    }
    if setting.method == "fast":
        own = {"per_agent": fast_cost(*sizes), "look": look_cost(*sizes), "restart": restart_cost(*sizes)}
        found["fast"] = {**own, "normalized": own["per_agent"] / single}
    return found


def _messages(setting: Setting) -> dict[str, Any]:
    sent = messages(setting.network, setting.n, setting.dtype.itemsize, setting.method)
    return {
        "per_agent": {"messages": _spread(sent.count), "numbers": _spread(sent.numbers), "bytes": _spread(sent.bytes)},
        "per_edge": {
            "messages": 2 * sent.exchanges if sent.edge_numbers else 0,
            "numbers": sent.edge_numbers,
            "bytes": sent.edge_bytes,
        },
        "total": {"messages": sent.total_count, "numbers": sent.total_numbers, "bytes": sent.total_bytes},
    }


def _spread(values: npt.NDArray[np.int64]) -> dict[str, float]:
    return {"min": int(values.min()), "mean": float(values.mean()), "max": int(values.max())}


def _memory(setting: Setting) -> dict[str, Any]:
    """Of the agent that needs most, term by term, and of all."""
    agents = range(setting.agents)
    itemsize = setting.dtype.itemsize
    pairs = zip(setting.sizes, setting.degrees, agents, strict=True)
    terms = [
        agent_memory(setting.n, d, degree, itemsize, first=j == 0, method=setting.method) for d, degree, j in pairs
    ]
    sums = [sum(one.values()) for one in terms]
    largest = int(np.argmax(sums))
    return {
        "largest": {"index": largest, "terms": terms[largest], "bytes": sums[largest]},
        "mean": sum(sums) / len(sums),
        "total": sum(sums),
        "agents": sums,
    }


def _time(setting: Setting, link: Link) -> dict[str, Any]:
    spent = iteration_seconds(setting.network, setting.sizes, setting.n, setting.dtype.itemsize, link, setting.method)
    alone = paper_cost(setting.n, setting.d, 1, 0) / link.flops
    shares = {name: getattr(spent, name) / spent.total for name in ("compute", "latency", "transfer")}
    return {**asdict(link), "seconds": asdict(spent), "shares": shares, "single_agent_seconds": alone}

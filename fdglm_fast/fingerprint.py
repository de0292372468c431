"""What decides a result, as a dictionary and as one hash: two runs with the same fingerprint give the same numbers.

Neither the number of threads nor the schedule is in it (they do not change a bit), nor are names of files: the data
count by their content, and so does a network that was read from a file.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from fdglm_fast import __version__
from fdglm_fast.graph_spec import parse_spec
from fdglm_fast.graphs import RANDOM

if TYPE_CHECKING:
    from fdglm_fast.job import Job
    from fdglm_fast.options import Options

STEP_NAMES = ("rule", "sigma", "tau", "chi", "D", "delta", "R", "force")
FAST_NAMES = ("method", "gossip", "primal_weight")


def deciding_options(job: Job, options: Options, dtype: str, compressed: bool) -> dict[str, Any]:
    """Everything that a user chose and that the numbers of a result depend on."""
    several = job.agents > 1
    drawn = several and parse_spec(job.graph).name in RANDOM
    return {
        "agents": job.agents,
        "graph": job.graph if several else None,
        "weights": job.weights if several else None,
        "seed": job.seed if drawn else None,
        "loss": job.loss.spec,
        "penalty": job.penalty.spec,
        "reg": job.penalty.reg,
        "dtype": dtype,
        "reference": job.reference,
        "compressed": compressed,
        **({} if options.method == "paper" else {name: getattr(options, name) for name in FAST_NAMES}),
        "iterations": options.iterations,
        "tol": options.tolerance,
        "time_limit": options.time_limit,
        "record": options.record,
        "steps": {name: getattr(options.steps, name) for name in STEP_NAMES},
    }


def fingerprint(decided: dict[str, Any], data_hash: str) -> str:
    """SHA-256, in hex, of the deciding options, the data and the version of this package."""
    parts = {"version": __version__, "data": data_hash, "options": decided, "graph": _graph_hash(decided)}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _graph_hash(decided: dict[str, Any]) -> str | None:
    """Edges and weights of a network that lies in a file; families are told by their names."""
    if decided["graph"] is None or parse_spec(decided["graph"]).path is None:
        return None
    from fdglm_fast.network import FITTED, build_network

    # Fitted weights follow from the edges and the data, which count by themselves.
    weights = "unit" if decided["weights"] in FITTED else decided["weights"]
    network = build_network(decided["graph"], decided["agents"], 0, weights)
    digest = hashlib.sha256(network.edges.astype("<i8").tobytes())
    digest.update(network.weights.astype("<f8").tobytes())
    return digest.hexdigest()

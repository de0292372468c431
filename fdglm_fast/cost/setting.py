"""What the cost is asked for: sizes, split, network and model, from a file or from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.model import is_weighted
from fdglm_fast.errors import UsageError
from fdglm_fast.losses import Loss
from fdglm_fast.network import Network
from fdglm_fast.partition import Partition, assign
from fdglm_fast.penalties import GROUP_L2, Penalty

DTYPES = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True, eq=False)
class Setting:
    """n samples, columns split among the agents of a network, a loss and a penalty; `path` where it is of a file."""

    n: int
    partition: Partition
    network: Network
    loss: Loss
    penalty: Penalty
    dtype: np.dtype[Any]
    path: str | None = None
    groups: npt.NDArray[np.int64] | None = None
    method: str = "paper"

    @property
    def d(self) -> int:
        return self.partition.features

    @property
    def agents(self) -> int:
        return self.partition.agents

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """d_j."""
        return self.partition.sizes

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        return self.network.degrees

    @property
    def max_degree(self) -> int:
        return self.network.max_degree

    @property
    def weighted(self) -> bool:
        return is_weighted(self.network)

    @property
    def single(self) -> bool:
        return self.agents == 1


def from_sizes(n: int, d: int, network: Network, loss: Loss, penalty: Penalty, dtype: str | None = None) -> Setting:
    """A setting without data: columns in contiguous blocks; float64 unless said otherwise."""
    partition = assign(d, network.agents)
    groups = partition.owner if penalty.code == GROUP_L2 else None  # one group an agent, as in the model
    return Setting(n, partition, network, loss, penalty, np.dtype(DTYPES[dtype or "f64"]), groups=groups)


def from_file(
    address: str, x: str, network: Network, loss: Loss, penalty: Penalty, dtype: str | None = None
) -> Setting:
    """The sizes and the partition of a file; X itself is not read."""
    from fdglm_fast.hdf5 import open_source

    with open_source(address, x) as source:
        split = assign(source.d, network.agents, source.partition_owner())
        groups = source.groups() if penalty.code == GROUP_L2 else None
        if penalty.code == GROUP_L2 and groups is None:
            raise UsageError("penalty 'group-l2' needs the group of each column: a dataset `groups` beside X.")
        kind = np.dtype(DTYPES[dtype]) if dtype else source.solve_dtype
        return Setting(source.n, split, network, loss, penalty, kind, source.path, groups)

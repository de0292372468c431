"""A problem in one file as a file an agent: its own columns as X, and y for agent 1 only."""

from __future__ import annotations

import numpy as np

from fdglm_fast.files import atomic_hdf5, check_output, check_written
from fdglm_fast.mpi.layout_names import agent_file, check_pattern


def split_file(data: str, pattern: str, agents: int, force: bool = False) -> list[str]:
    """Write the files of all agents, split as a solve would split them; returns their names."""
    from fdglm_fast.hdf5 import open_source
    from fdglm_fast.partition import assign

    check_pattern("--split", pattern)
    paths = [agent_file(pattern, j) for j in range(1, agents + 1)]
    for path in paths:
        check_output(path, force)
    with open_source(data) as source:
        partition, groups = assign(source.d, agents, source.partition_owner()), source.groups()
        y = source.require_response()
        for j, path in enumerate(paths):
            columns = np.array(partition.columns(j))
            with atomic_hdf5(path, force) as file:
                shape = (source.n, len(columns))
                X = file.create_dataset("X", shape, source.solve_dtype, chunks=True, fletcher32=True)
                for start, block in source.blocks(columns=columns):
                    X[start : start + len(block)] = block
                    check_written(file)
                if j == 0:
                    file.create_dataset("y", data=y, fletcher32=True)
                if groups is not None:
                    file.create_dataset("groups", data=groups[columns], fletcher32=True)
    return paths

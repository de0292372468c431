"""The benchmark of methods: paper against fast, on five models, three kinds of columns and six networks.

    python bench/methods.py FOLDER [--jobs 2]      goes on where it was cut off; results in FOLDER/runs/*.json
    python bench/methods.py FOLDER --table         only the tables, FOLDER/methods.csv and FOLDER/methods.md

Iterations, bytes and seconds to relative errors of 1e-4, 1e-6 and 1e-8, three seeds. Squared losses are compressed,
which changes no iterate; bytes count all n samples. `fixed` is fast with its weight held at one, and shows what
adapting it is worth.
"""

from __future__ import annotations

import argparse
import os
import sys

from fdglm_bench.method_cases import AGENTS, DESIGNS, GRAPHS, METHODS, MODELS, SEEDS, Size, Task
from fdglm_bench.method_runs import Plan, read_runs, run_tasks
from fdglm_bench.method_table import as_csv, as_markdown, conclusions, rows_of
from fdglm_fast.files import atomic_text


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="methods.py", description="Paper against fast.")
    parser.add_argument("folder")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--table", action="store_true", help="run nothing, write the tables")
    parser.add_argument("--samples", type=int, default=Size.samples)
    parser.add_argument("--features", type=int, default=Size.features)
    parser.add_argument("--iterations", type=int, default=Size.iterations)
    for name, known in (("models", tuple(MODELS)), ("designs", DESIGNS), ("graphs", GRAPHS), ("methods", METHODS)):
        parser.add_argument(f"--{name}", nargs="+", default=known, choices=None if name == "graphs" else known)
    parser.add_argument("--agents", type=int, nargs="+", default=AGENTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    given = parse(words)
    runs_folder = os.path.join(given.folder, "runs")
    size = Size(given.samples, given.features, given.iterations)
    plan = Plan(runs_folder, size, tuple(given.agents), tuple(given.graphs), tuple(given.methods))
    tasks = [Task(model, design, seed) for model in given.models for design in given.designs for seed in given.seeds]
    if not given.table:
        run_tasks(plan, tasks, given.jobs, lambda line: print(line, file=sys.stderr, flush=True))
    runs = list(read_runs(runs_folder))
    rows = rows_of(runs)
    for name, text in (("methods.csv", as_csv(rows)), ("methods.md", as_markdown(rows, runs))):
        with atomic_text(os.path.join(given.folder, name), force=True) as stream:
            stream.write(text)
    print("\n".join(conclusions(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The reproduction of section 4, checked: agreement with an independent implementation, the paper's claims, the time.

Usage: python bench/paper/check.py RUNS. Exit code 1 when an error is not where the independent implementation has it;
claims of the paper that do not hold are told, and are no fault of the runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from fdglm_fast.report.claims import check_claims
from fdglm_fast.report.study import Study, studies
from fdglm_fast.runs import Run, read_folder

SIZE, ITERATIONS = (16384, 2048), 5000
SINGLE = 4.34e-8  # relative error of one agent; another seed of the data may make a difference of 10 %
COMPLETE_64 = -6.7  # log10, within 0.15


def agreement(study: Study) -> Iterator[tuple[str, bool | None]]:
    """(what was compared, whether it agrees); None where the runs are not there."""
    if (study.first.n, study.first.d) != SIZE or study.iterations != ITERATIONS:
        yield f"not the paper's size ({study.first.n} x {study.first.d}, {study.iterations} iterations)", None
        return
    if study.single is None:
        yield "the single agent is missing", None
    else:
        error = study.value(study.single, ITERATIONS)
        yield f"single agent: relative error {error:.3e}, expected {SINGLE:.3e} +- 10 %", abs(error / SINGLE - 1) <= 0.1
    cell = study.cell("complete", 64)
    if not cell:
        yield "complete at 64 agents is missing", None
    else:
        error = math.log10(study.value(cell[0], ITERATIONS))
        yield (
            f"complete, 64 agents: log10 {error:.3f}, expected {COMPLETE_64} +- 0.15",
            abs(error - COMPLETE_64) <= 0.15,
        )


def seconds(run: Run) -> float:
    return float(run.report["time"]["solve"])


def main(folder: str) -> int:
    runs = read_folder(folder).runs
    code = 0
    for study in studies(runs):
        print(study.title)
        for what, agrees in agreement(study):
            print(f"  {'?' if agrees is None else 'yes' if agrees else 'NO'}  {what}")
            code = 1 if agrees is False else code
        print("claims of the paper (log10 of relative errors):")
        for each in check_claims(study):
            seeds = f" ({each.seeds} seeds)" if each.seeds else ""
            print(f"  {each.status}{seeds}: {each.claim}. Measured as: {each.measured_as}.")
            if each.figures:
                print(f"      {each.figures}")
    spent = sorted(runs, key=seconds)
    total = sum(seconds(run) for run in runs)
    print(f"time: {total:.1f} s in {len(runs)} runs; median {seconds(spent[len(spent) // 2]):.2f} s, ", end="")
    print(f"longest {seconds(spent[-1]):.2f} s ({spent[-1].label})")
    return code


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python bench/paper/check.py RUNS")
    sys.exit(main(sys.argv[1]))

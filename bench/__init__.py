"""Benchmarks: `fdglm bench`, which times an iteration against the memory limit and against NumPy.

cases.py        what is measured: agents, graph, type, threads
data.py         a problem in memory
bandwidth.py    how fast the machine reads X, and the limit that follows
numpy_rival.py  the same iteration as a careful NumPy user writes it; exchange.py and passes.py are its two halves
tune.py         which way of writing each half is the fastest here
clock.py        timing in interleaved blocks
measure.py      one case; scaling.py: the cost against n and against d
overhead.py     what checkpoints and the looks for numbers that are not finite cost
machine.py      what the numbers were measured on
run.py          all cases, saved after each
table.py  figures.py   what a person looks at
methods.py      paper against fast: method_cases.py (problems), method_runs.py (runs), method_table.py (verdicts)
"""

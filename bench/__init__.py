"""Benchmarks: `fdglm bench` and the scripts that made the committed figures."""

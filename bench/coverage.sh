#!/bin/sh
# Line coverage of fdglm_fast and cli without the JIT, where the kernels' plain Python is what runs: at least 90 %.
# The tests are those that end in minutes that way: small problems, few iterations. Processes that tests start count too.
#
#     sh bench/coverage.sh            (PYTHON names the interpreter; default .venv/bin/python)
set -e
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
export NUMBA_DISABLE_JIT=1 COVERAGE_FILE="$PWD/.coverage"
"$python" -m coverage erase
"$python" -m coverage run -m pytest -p no:cacheprovider $(cat bench/coverage.txt)
"$python" -m coverage combine -q
"$python" -m coverage report --skip-covered --fail-under=90

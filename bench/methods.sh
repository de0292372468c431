#!/bin/sh
# Paper against fast: five models, three kinds of columns, six networks, 16, 64 and 256 agents, three seeds, two methods:
# 1620 runs of at most 20,000 iterations, n = 512, d = 256. Runs unattended and goes on where it was cut off.
#
#     bench/methods.sh [FOLDER]          default: methods/; FOLDER/methods.csv, FOLDER/methods.md, FOLDER/runs/*.json
#
# PYTHON names the interpreter that fdglm is installed for, JOBS the number of processes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-python3}" "$here/methods.py" "${1:-methods}" --jobs "${JOBS:-2}"

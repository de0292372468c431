#!/bin/sh
# Paper against fast, and fast with its weight held at one: five models, three kinds of columns, six networks, 16, 64
# and 256 agents, three seeds: 2430 runs of at most 20,000 iterations, with 4, 2 and 1 columns an agent and twice as many
# samples as columns. Runs unattended and goes on where it was cut off.
#
#     bench/methods.sh [FOLDER]          default: methods/; FOLDER/methods.csv, FOLDER/methods.md, FOLDER/runs/*.json
#
# PYTHON names the interpreter that fdglm is installed for, JOBS the number of processes, AGENTS some of the sizes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for agents in ${AGENTS:-16 64 256}; do
    case $agents in 16) features=64 ;; 64) features=128 ;; *) features=256 ;; esac
    "${PYTHON:-python3}" "$here/methods.py" "${1:-methods}" --jobs "${JOBS:-2}" \
        --agents "$agents" --features "$features" --samples $((2 * features))
done

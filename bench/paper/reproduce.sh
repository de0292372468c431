#!/bin/sh
# Section 4 of the paper at full size: 16384 x 2048 standard normal data, least squares, 5000 iterations, 1 to 512 agents on
# six families of networks, three seeds of the random ones (78 runs), the two figures, and a verdict on each claim.
#
#     bench/paper/reproduce.sh [FOLDER]          default: paper/, about 280 MB of data and 10 MB of results
#
# Runs unattended and goes on where it was cut off; when all runs are there, it takes seconds. Compression to the triangular
# factor of [X y], which is exact for least squares, makes an iteration eight times cheaper. At the end:
#
#     FOLDER/report.html       the page; figures (SVG, PDF) and tables (CSV, JSON) in FOLDER/report_files/
#     FOLDER/check.txt         what check.py says: agreement with an independent implementation, claims, time per run
#
# FDGLM and PYTHON name the programs; SAMPLES, FEATURES, ITERATIONS and AGENTS make a small trial of it. KEEP=1 copies the
# tables (CSV) and the figures into bench/paper/results/, where they are under version control.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-paper}
fdglm=${FDGLM:-fdglm}
python=${PYTHON:-python3}
mkdir -p "$folder"
data=$folder/data.h5

[ -e "$data" ] || "$fdglm" generate "$data" --samples "${SAMPLES:-16384}" --features "${FEATURES:-2048}" --seed 0

# Not `set -e` here: a run that fails is told in the table and in the report, and does not hide the others.
code=0
"$fdglm" sweep "$data" --paper --out "$folder/runs" \
    ${ITERATIONS:+--iterations "$ITERATIONS"} ${AGENTS:+--agents "$AGENTS"} || code=$?
[ "$code" -eq 130 ] && exit 130

"$fdglm" report "$folder/runs" -o "$folder/report.html" --force
"$python" "$here/check.py" "$folder/runs" > "$folder/check.txt" || code=1
cat "$folder/check.txt"

if [ "${KEEP:-0}" = 1 ]; then
    mkdir -p "$here/results"
    cp "$folder"/report_files/*.csv "$folder"/report_files/*.svg "$folder"/report_files/*.pdf "$folder/check.txt" "$here/results/"
fi
exit "$code"

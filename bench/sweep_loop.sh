#!/bin/sh
# A sweep by hand: a plain loop over `fdglm solve`. Interrupt it and start it again: --skip-existing passes over what is
# finished. `fdglm sweep` does the same in one process, loading the data once. Usage: bench/sweep_loop.sh DATA.h5 FOLDER
set -u
data=${1:?usage: sweep_loop.sh DATA.h5 FOLDER}
folder=${2:?usage: sweep_loop.sh DATA.h5 FOLDER}
fdglm=${FDGLM:-fdglm}
iterations=${ITERATIONS:-1000}
mkdir -p "$folder"
worst=0

for agents in ${AGENTS:-1 4 16}; do
    for graph in ${GRAPHS:-complete star er:0.5}; do
        if [ "$agents" -eq 1 ] && [ "$graph" != complete ]; then
            continue # one agent has no network
        fi
        name=$(echo "m${agents}_${graph}" | tr ':/' '--')
        "$fdglm" solve "$data" --agents "$agents" --graph "$graph" --iterations "$iterations" --reference \
            --out "$folder/$name.h5" --skip-existing --tag "loop=$graph" --quiet
        code=$?
        echo "$name: exit code $code"
        [ "$code" -eq 130 ] && exit 130 # Ctrl-C ends the loop, too
        [ "$code" -gt "$worst" ] && worst=$code
    done
done

"$fdglm" report "$folder" -o "$folder/report.html" --force
exit "$worst"

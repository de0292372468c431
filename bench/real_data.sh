#!/bin/sh
# The report on data that nobody drew from a normal distribution: logistic regression and the lasso on two data sets that
# scikit-learn ships. A minute or two. Usage: bench/real_data.sh [FOLDER]
#
# Needs the test extras (scikit-learn) and `fdglm` on the path, or FDGLM and PYTHON set to them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-real_data}
fdglm=${FDGLM:-fdglm}
python=${PYTHON:-python3}

"$python" "$here/real_data.py" "$folder"

# l2 keeps the logistic optimum finite: the classes can be separated by a plane.
"$fdglm" sweep "$folder/breast_cancer.h5" --loss logistic --penalty l2 --reg 0.01 --reference \
    --agents 1,2,4,8,16,30 --graph complete,star,er:0.5,lattice,rgg:0.6 --seeds 0,1,2 \
    --iterations 5000 --record log:120 --out "$folder/logistic"
"$fdglm" report "$folder/logistic" -o "$folder/logistic.html" --force

"$fdglm" sweep "$folder/diabetes.h5" --loss squared --penalty l1 --reg 0.05 --reference \
    --agents 1,2,5,10 --graph complete,star,er:0.5,lattice,rgg:0.6 --seeds 0,1,2 \
    --iterations 5000 --record log:120 --out "$folder/lasso"
"$fdglm" report "$folder/lasso" -o "$folder/lasso.html" --force

#!/bin/sh
# Faults and overhead of `nccldoctor run` on a machine with two GPUs; PYTHON may name the interpreter that has torch.
#   benchmarks/gpu_run.sh OUT_FOLDER [options of gpu_run.py]
set -eu
cd "$(dirname "$0")/.."
PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" exec "${PYTHON:-python3}" benchmarks/gpu_run.py "$@"

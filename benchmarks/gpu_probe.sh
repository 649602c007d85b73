#!/usr/bin/env bash
# Measures topo, probe --quick, probe and probe --levers on this machine's GPUs, and sets the probe beside nccl-tests.
# Leaves JSON in $OUT. NCCL_TESTS names a folder with all_reduce_perf and its kin; without one, OTHER (a folder of saved
# tables of the same machine) is compared instead.
set -u
out=${OUT:-gpu-probe}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

timed() { # NAME LIMIT COMMAND…: runs it under a limit, keeps its output, says how long it took
  local name=$1 limit=$2 begin end code
  shift 2
  begin=$(date +%s.%N)
  timeout -k 10 "$limit" "$@" >"$out/$name.txt" 2>"$out/$name.err"
  code=$?
  end=$(date +%s.%N)
  printf '== %s: exit %s, %.1f s\n' "$name" "$code" "$(echo "$end - $begin" | bc 2>/dev/null || "$python" -c "print($end - $begin)")"
  tail -n "${SHOW:-60}" "$out/$name.txt"
  grep -a '^nccldoctor' "$out/$name.err" | grep -v 'run folder' | tail -8
  [ "$code" -eq 0 ] || tail -n 15 "$out/$name.err"
}

keep() { # RUN-FOLDER NAME: the results that are worth carrying home
  cp "$1/probe.json" "$out/$2.json" 2>/dev/null
  cp "$1/report.json" "$out/$2-report.json" 2>/dev/null
  cp "$1/report.html" "$out/$2-report.html" 2>/dev/null
  cat "$1"/ranks/*.out 2>/dev/null | tail -c 20000 >"$out/$2-ranks.txt"
}

timed topo 60 "$python" -m nccldoctor topo --json "$out/topo.json"
timed quick 90 "$python" -m nccldoctor probe --quick --run-dir "$scratch/quick"
keep "$scratch/quick" quick
timed full 240 "$python" -m nccldoctor probe --run-dir "$scratch/full"
keep "$scratch/full" full
SHOW=30 timed levers 300 "$python" -m nccldoctor probe --levers --run-dir "$scratch/levers"
keep "$scratch/levers" levers

if [ -n "${NCCL_TESTS:-}" ] && [ -x "$NCCL_TESTS/all_reduce_perf" ]; then
  gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())')
  for test in all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv; do
    timeout 60 "$NCCL_TESTS/${test}_perf" -b 64M -e 1G -f 4 -g "$gpus" -n 20 -w 3 >"$scratch/$test.txt" 2>&1
  done
  "$python" "$here/benchmarks/beside_nccl_tests.py" "$out/full.json" "$scratch"/*.txt | tee "$out/beside.txt"
else
  other=${OTHER:-$here/sample_logs/nccl-tests-h200}
  echo "no nccl-tests binary: compared with the tables in $(basename "$other")"
  "$python" "$here/benchmarks/beside_nccl_tests.py" "$out/full.json" "$other"/*.txt | tee "$out/beside.txt"
fi

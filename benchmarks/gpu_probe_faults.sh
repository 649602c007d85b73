#!/usr/bin/env bash
# What the probe says of planted faults on this machine's GPUs, of a job that hangs beside it, and of NCCL's own diagnostics.
# NEWER names a libnccl.so.2 of 2.31 or later to preload for the last one. Leaves the run folders in $OUT.
set -u
out=${OUT:-gpu-probe-faults}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$out"

told() { # NAME LIMIT COMMAND…: exit code, seconds, and what it concluded
  local name=$1 limit=$2 begin code
  shift 2
  begin=$SECONDS
  timeout -k 10 "$limit" "$@" >"$out/$name.txt" 2>"$out/$name.err"
  code=$?
  printf '== %s: exit %s, %s s\n' "$name" "$code" $((SECONDS - begin))
  grep -a '^nccldoctor' "$out/$name.err" | grep -v 'run folder\|report /' | tail -6
}

for plant in wrong:1 slow:1:20 stuck:1; do
  told "${plant%%:*}" 150 "$python" -m nccldoctor probe --quick --plant "$plant" --run-dir "$out/run-${plant%%:*}"
done

"$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/benchmarks/faulty_worker.py" sleep >"$out/hung.txt" 2>&1 &
job=$!
sleep 20
told beside 60 "$python" -m nccldoctor probe --beside "$(pgrep -f 'faulty_worker.py sleep' | tail -1)" --ping
cat "$out/beside.txt"
pkill -9 -f 'faulty_worker.py sleep'
wait "$job" 2>/dev/null

if [ -n "${NEWER:-}" ]; then
  LD_PRELOAD=$NEWER told diagnostics 120 "$python" -m nccldoctor probe --quick --run-dir "$out/run-diagnostics"
  tail -n 2 "$out/diagnostics.txt"
  grep -ah 'NCCL DIAG' -r "$out/run-diagnostics/ranks" | cut -c1-200 | head -n 20
fi

#!/bin/bash
# Slurm epilog: reads what a failed job left behind and writes the report beside it.
# Install as EpilogSlurmctld, or as TaskEpilog on the first host; the job wrote its logs below NCCLDOCTOR_LOGS/JOBID:
#   export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=$NCCLDOCTOR_LOGS/$SLURM_JOB_ID/nccl_debug_%h_%p.log
#   srun --output=$NCCLDOCTOR_LOGS/$SLURM_JOB_ID/rank%t.out …
set -u
logs=${NCCLDOCTOR_LOGS:-/var/log/nccl}/${SLURM_JOB_ID:?not in a Slurm job}
[ -d "$logs" ] || exit 0
[ "${SLURM_JOB_EXIT_CODE:-1}" != 0 ] || exit 0
# An epilog that fails drains the host, so this one never does.
timeout 300 nccldoctor parse "$logs" --quiet --fail-on never \
    --html "$logs/report.html" --json "$logs/report.json" --markdown "$logs/report.md" \
    2>"$logs/nccldoctor.err" || true
exit 0

#!/bin/sh
# Kubernetes sidecar: waits until the pod ends, then reads the evidence that the ranks wrote and leaves the report.
# Kubernetes stops a sidecar with SIGTERM after the main containers; the grace period must suffice for the reading.
set -u
evidence=${EVIDENCE:-/evidence}
nap=
finish() {
    [ -z "$nap" ] || kill "$nap" 2>/dev/null
    nccldoctor parse "$evidence" --quiet --fail-on never --partial \
        --html "$evidence/report.html" --json "$evidence/report.json" --markdown "$evidence/report.md"
    cat "$evidence/report.md"
    exit 0
}
trap finish TERM INT
while :; do
    sleep 5 &
    nap=$!
    wait "$nap"
done

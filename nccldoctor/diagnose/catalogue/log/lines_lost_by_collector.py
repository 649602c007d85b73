"""A collector left lines out: Ray folds repeated lines, journald and rsyslog limit their rate.

NCCL's lines on different ranks look alike to Ray, so it drops exactly those that tell ranks apart. Whether a rank said
something can then not be told from its silence.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.machine import LinesLost
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "LOG05"
name = "lines-lost-by-collector"
severity = Severity.NOTE
needs = (Evidence.OUTPUT, Evidence.NCCL_LOG)
explains = ("LOG01",)
confirm = ("grep -c 'repeated\\|Suppressed\\|rate-limit' LOG  # how much was left out",)
remedy = (
    "export RAY_DEDUP_LOGS=0  # on the driver; costs longer output",
    "export NCCL_DEBUG_FILE=/tmp/nccl_debug_%h_%p.log  # past all collectors; costs collecting the files",
    "sudo sed -i 's/^#*RateLimitIntervalSec=.*/RateLimitIntervalSec=0/' /etc/systemd/journald.conf && sudo systemctl restart systemd-journald  # costs the protection of the disk",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a collector."""
    for collector, events in apart(job.events(LinesLost), lambda e: e.collector).items():
        total = sum(e.count or 0 for e in events)
        yield Found(
            title=f"{collector} left out {total:,} lines or more",
            evidence=lines(events),
        )


fires_on = {
    "Ray": "(RayWorkerWrapper pid=4009) gpu-1:71:71 [0] NCCL INFO Connected all rings [repeated 7x across cluster] (Ray deduplicates logs by default.)\n(RayWorkerWrapper pid=4010) step 3 [repeated 7x across cluster]\n",
    "journald": "Nov 30 04:12:09 node-7 systemd-journald[512]: Suppressed 4312 messages from slurmd.service\n",
    "rsyslog": "Nov 30 04:12:09 node-7 rsyslogd: imjournal: 1482 messages lost due to rate-limiting (20000 allowed within 600 seconds)\n",
}
silent_on = {"nothing was left out": "(RayWorkerWrapper pid=4009) step 3\n"}

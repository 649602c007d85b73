"""A topology or graph file that was given cannot be used.

NCCL_TOPO_FILE and NCCL_GRAPH_FILE replace what NCCL would find by itself. A file of another version, a truncated or
hand-edited one, or one of another machine type stops set-up; a path that does not exist is skipped with a notice.
Not a fault: the default file of NVIDIA's topology daemon, which most machines do not have.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.settings import named
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.platform import TopologyFileUnusable
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO16"
name = "topology-file-invalid"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT07", "NET10", "HANG04", "CRASH01", "TOPO10")
confirm = (
    "ls -l $NCCL_TOPO_FILE $NCCL_GRAPH_FILE; python3 -c 'import xml.dom.minidom,sys; xml.dom.minidom.parse(sys.argv[1])' $NCCL_TOPO_FILE  # is it inside the container? is it whole?",
)
remedy = (
    "unset NCCL_TOPO_FILE NCCL_GRAPH_FILE  # bare metal needs neither; costs nothing there, and NIC placement on virtual machines",
    "NCCL_TOPO_DUMP_FILE=topo.xml python train.py  # writes a valid file on such a machine; clouds ship theirs with image or plugin (AWS: aws-ofi-nccl 1.11 and later); costs one run",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a reason; a file that is not there is only a warning, for NCCL goes on without it."""
    by_reason = apart(job.events(TopologyFileUnusable), lambda event: event.reason)
    setting = next(iter(named(job, "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE")), None)
    for reason, events in by_reason.items():
        absent = reason.startswith("Could not open XML topology")
        given = f" ({setting.variable}={setting.value})" if setting and not events[0].file else ""
        yield told_by(
            job,
            events,
            f"{who(job, events)}: {reason}{given}",
            evidence=lines([*events, *([setting.event] if setting else [])]),
            confidence=Confidence.HIGH if setting or events[0].file else Confidence.MEDIUM,
            severity=Severity.WARNING if absent else None,
        )


fires_on = {
    "version": "gpu-1:71:71 [0] graph/xml.cc:1 NCCL WARN XML Topology has wrong version 2, 1 needed",
    "attribute": "gpu-1:71:71 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /etc/nccl/topo.xml\ngpu-1:71:71 [0] graph/xml.h:1 NCCL WARN Attribute busid of node pci not found\n",
    "too many parts": "gpu-1:71:71 [0] graph/xml.h:1 NCCL WARN Error : too many XML nodes (max 256)",
    "not there": "gpu-1:71:71 [0] NCCL INFO Could not open XML topology file /etc/nccl/topo.xml : No such file or directory",
    "graph file": "gpu-1:71:71 [0] graph/xml.cc:1 NCCL WARN Could not open XML graph file /etc/nccl/graph.xml : No such file or directory",
    "RCCL": "mi-1:71:71 [0] /src/graph/xml.cc:1 NCCL WARN XML Topology has wrong version 2, 1 needed",
}
silent_on = {
    "the daemon's default path": "gpu-1:71:71 [0] NCCL INFO Could not open XML topology file /var/run/nvidia-topologyd/virtualTopology.xml : No such file or directory",
    "a file in use": "gpu-1:71:71 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/microsoft/ndv4-topo.xml",
}

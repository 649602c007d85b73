"""A variable looks like NCCL's or PyTorch's, but no version reads it.

NCCL never complains of names that it does not know, so a misspelt variable silently does nothing. It leaves no line in
NCCL's log either: only the environment shows it. Names that plugins, containers and frameworks own are not reported, and
one that is near no real name may be a script's own: it is only a note.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import settings
from nccldoctor.knowledge.environment import lookup, nearest, owner
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV01"
name = "unknown-variable"
severity = Severity.WARNING
needs = (Evidence.ENVIRONMENT,)
explains = ()
confirm = (
    "nccldoctor env  # names, values and versions of this environment, with the nearest real name",
)
remedy = (
    "unset NAME  # or use the name that is meant; costs nothing, since nobody reads the wrong one",
)
_FAMILIES = ("NCCL_", "RCCL_", "TORCH_NCCL_", "TORCH_FR_", "nccl_")


def check(job: Job) -> Iterable[Found]:
    """One finding a name."""
    shown = [s for s in settings(job) if not s.read and s.variable.startswith(_FAMILIES)]
    for variable in sorted({s.variable for s in shown}):
        known = lookup(variable)
        if owner(variable) or (known is not None and known.vendor != "nobody"):
            continue
        events = [s.event for s in shown if s.variable == variable]
        meant = nearest(variable)
        hint = f": {meant} was meant" if meant and known is None else ""
        about = f" ({known.about})" if known else ""
        yield told_by(
            job,
            events,
            f"{variable} is set, and no version of NCCL or PyTorch reads it{hint}{about}",
            confidence=Confidence.HIGH if meant or known else Confidence.MEDIUM,
            severity=Severity.WARNING if meant or known else Severity.NOTE,
            remedy=(
                f"unset {variable}; export {meant}=…  # costs nothing, since nobody reads the wrong name",
                confirm[0],
            )
            if meant
            else remedy,
        )


fires_on = {
    "env in the output": "NCCL_DEBUG=INFO\nNCCL_IB_DISABEL=1\n",
    "bash -x": "+ export NCCL_SOKET_IFNAME=eth0\n",
    "a name that was never there": "NCCL_TIMEOUT=1800\n",
    "PyTorch": "export TORCH_NCCL_BLOCKNG_WAIT=1\n",
}
silent_on = {
    "right names": "NCCL_DEBUG=INFO\nNCCL_IB_DISABLE=1\nTORCH_NCCL_BLOCKING_WAIT=1\n",
    "plugins, images and tests": "NCCL_OFI_TUNER_TYPE=x\nOFI_NCCL_PROTOCOL=RDMA\nNCCL_VERSION=2.28.9-1\nNCCL_GIB_X=1\nNCCL_TESTS_SPLIT=1\n",
}

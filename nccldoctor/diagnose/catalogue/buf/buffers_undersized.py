"""NCCL's buffers are set far below their defaults.

Small buffers cut transfers into small pieces, and fast links run dry between them. Some save GPU memory that way when
there are very many communicators; then it is a choice, and worth measuring.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import named, number, unique
from nccldoctor.diagnose.words import size, who
from nccldoctor.knowledge.buffers import BUFFERS
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF03"
name = "buffers-undersized"
severity = Severity.WARNING
needs = (Evidence.ENVIRONMENT,)
explains = ("PERF01",)
confirm = ("nccldoctor probe  # bus bandwidth with and without the variable",)
remedy = (
    "unset NCCL_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LL128_BUFFSIZE  # costs about 9 MiB of GPU memory for each channel and neighbour of each communicator",
)
PART = 4


def check(job: Job) -> Iterable[Found]:
    """One finding a variable."""
    for setting in unique(named(job, *BUFFERS)):
        value = number(setting)
        default = BUFFERS[setting.variable]
        if value is None or not 0 < value <= default // PART:
            continue
        events = [s.event for s in named(job, setting.variable) if s.value == setting.value]
        yield told_by(
            job,
            events,
            f"{who(job, events, 'The job')}: {setting.variable} of {size(value)} is far below the default of {size(default)}",
            confidence=Confidence.MEDIUM,
            remedy=(
                f"unset {setting.variable}  # costs about 9 MiB of GPU memory for each channel and neighbour of each communicator",
            ),
        )


_H = "gpu-1:71:71 [0] NCCL INFO "
fires_on = {
    "2.10+": _H + "NCCL_BUFFSIZE set by environment to 65536.\n",
    "the environment": "NCCL_BUFFSIZE=262144\n",
}
silent_on = {
    "half": _H + "NCCL_BUFFSIZE set by environment to 2097152.\n",
    "the default of LL": _H + "NCCL_LL_BUFFSIZE set by environment to 524288.\n",
}

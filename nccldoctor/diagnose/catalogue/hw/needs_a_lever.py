"""The job fails as it is, and goes through with one of NCCL's layers switched off: the fault is in that layer.

`nccldoctor run --fallback job` has run the job again with one setting at a time, from wide to narrow. What goes through
names the layer; a setting changes timing too, so a race in the program can hide behind one lever: a second run with and
without it makes sure. The setting is a way through the night and no cure: it costs bandwidth for as long as it stays.
Where no lever helps the fault lies elsewhere, and nothing is reported here.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.torch import ProcessEnded
from nccldoctor.model.events.watched import LeverTried
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "HW08"
name = "job-needs-a-lever"
severity = Severity.ERROR
needs = (Evidence.LAUNCHER,)
explains = (
    "CRASH01",
    "CRASH02",
    "CRASH03",
    "HANG02",
    "HANG03",
    "HANG04",
    "HANG05",
    "HANG06",
    "INIT01",
    "INIT03",
    "NET04",
    "NET10",
)
confirm = (
    "nccldoctor topo; nccldoctor probe --levers  # links, islands and what is degraded; the same layers, without the job",
)
remedy = (
    "scontrol update nodename=HOST state=drain reason=nccl-layer  # where the probe shows the same layer at fault on one host, until it is mended; costs its GPUs",
)


def check(job: Job) -> Iterable[Found]:
    """The first setting with which the job went through."""
    tried = job.events(LeverTried)
    mended = next((e for e in tried if e.exit_code == 0 and e.layer), None)
    if mended is None:
        return
    setting = " ".join(f"{k}={v}" for k, v in mended.variables.items())
    failed = len([e for e in tried if e.exit_code])
    others = f" (not with {failed} tried before)" if failed else ""
    failed_ranks = [e for e in job.events(ProcessEnded) if e.exit_code and not e.by_launcher]
    ended = sorted(failed_ranks, key=lambda e: not e.first)[:1]
    yield Found(
        title=f"The job fails as it is and goes through with {setting}{others}: at fault is {mended.layer}",
        evidence=lines([mended, *ended]),
        confidence=Confidence.MEDIUM,
        ranks=tuple(e.ended_rank for e in ended if e.ended_rank is not None),
        hosts=tuple(h for h in [mended.speaker.host] if h),
        explanation=(
            f"{setting} costs: {mended.cost}. It must not stay: take it out once the layer is mended, and measure."
        ),
        remedy=(
            f"export {setting}  # only until it is mended; it costs: {mended.cost}",
            *confirm,
            *remedy,
        ),
    )


_TRIED = """{"nccldoctor": "snapshot", "schema": 1, "host": "n1", "fallback": [
 {"lever": "one-channel", "variables": {"NCCL_MAX_NCHANNELS": "1", "NCCL_BUFFSIZE": "16777216"}, "exit_code": 124,
  "layer": "concurrency between channels", "cost": "22 instead of 326 GB/s"},
 {"lever": "no-p2p", "variables": {"NCCL_P2P_DISABLE": "1"}, "exit_code": CODE,
  "layer": "direct access between GPUs", "cost": "28 instead of 326 GB/s"}]}
"""
fires_on = {
    "the second lever": _TRIED.replace("CODE", "0"),
    "the first lever": _TRIED.replace("124", "0", 1).replace("CODE", "124"),
}
silent_on = {"no lever helps": _TRIED.replace("CODE", "124")}

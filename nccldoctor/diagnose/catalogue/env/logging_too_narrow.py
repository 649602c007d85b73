"""NCCL's log is set so that it hides what a diagnosis needs.

NCCL_DEBUG_SUBSYS replaces the default (INIT, BOOTSTRAP, ENV) and does not add to it: INIT,COLL loses variables and
networks. A name that the version does not know is ignored, and if nothing else is left NCCL prints nothing at all, not
even warnings; since 2.30.7 one unknown name rejects the whole value. A level that does not exist prints nothing.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import library_version, named, unique
from nccldoctor.diagnose.words import lines
from nccldoctor.knowledge.values import problem, subsystems
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV09"
name = "logging-too-narrow"
severity = Severity.NOTE
needs = (Evidence.ENVIRONMENT,)
explains = ()
MASK = "INIT,ENV,BOOTSTRAP,NET,GRAPH,TUNING"
confirm = (
    "env | grep NCCL_DEBUG; grep -c NCCL /tmp/nccl_debug_*  # what is asked for, and how much comes",
)
remedy = (
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,BOOTSTRAP,NET,GRAPH,TUNING  # costs some thousand lines a rank at set-up, none during steps",
    "nccldoctor run train.py  # sets the log so that everything can be checked; costs less than the noise between runs (benchmarks/gpu.md)",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a value."""
    version = library_version(job)
    for setting in unique(named(job, "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS")):
        wrong = problem(setting.variable, setting.value, version)
        if not wrong and setting.variable == "NCCL_DEBUG_SUBSYS":
            wrong = _hides(setting.value)
        if wrong:
            yield Found(
                title=f"{setting.variable}={setting.value} {wrong}",
                evidence=lines([setting.event]),
            )


def _hides(value: str) -> str | None:
    names = set(subsystems(value))
    if not names:
        return None
    if value.strip().startswith("^"):
        missing = sorted(names & {"INIT", "ENV", "NET"})
    else:
        missing = [] if "ALL" in names else [n for n in ("INIT", "ENV", "NET") if n not in names]
    return f"hides {', '.join(missing)}" if missing else None


fires_on = {
    "too few": "NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=INIT,COLL\n",
    "all but": "+ export NCCL_DEBUG_SUBSYS=^ENV\n",
    "unknown name": "NCCL_DEBUG_SUBSYS=INIT,ENV,NET,TUNNING\n",
    "unknown level": "export NCCL_DEBUG=DEBUG\n",
}
silent_on = {
    "enough": f"NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS={MASK}\n",
    "all": "NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=ALL\n",
    "nothing said": "NCCL_DEBUG=WARN\n",
}

"""A variable is set that this version of the library does not know any more, or not yet.

It silently does nothing. PyTorch still reads its old names and warns; that is a note.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import library_version, settings
from nccldoctor.diagnose.words import lines
from nccldoctor.knowledge.environment import known_at, lookup
from nccldoctor.model.events.nccl import Version
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV04"
name = "removed-or-renamed-variable"
severity = Severity.WARNING
needs = (Evidence.ENVIRONMENT,)
explains = ()
confirm = ("nccldoctor env  # checks all names against the installed version",)
remedy = (
    "unset NAME  # or export the name that this version knows; costs nothing, since the old one does nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a name that NCCL at this version does not read; a note for old names of PyTorch."""
    version = library_version(job)
    nvidia = all(e.library == "nccl" for e in job.events(Version))
    shown = [s for s in settings(job) if not s.read]
    for variable in sorted({s.variable for s in shown}):
        known = lookup(variable)
        if known is None or known.vendor == "nobody":
            continue
        events = [s.event for s in shown if s.variable == variable]
        change = f"unset {variable}" + (
            f"; export {known.replaced_by}=…" if known.replaced_by else ""
        )
        change += "  # costs nothing"
        if known.vendor == "nccl" and nvidia and version and known_at(variable, version) is False:
            gone = f"went with {known.gone}" if known.gone else f"comes with {known.since}"
            yield told_by(
                job,
                events,
                f"{variable} does nothing: NCCL {version} does not read it ({gone.replace('with after', 'after')})",
                evidence=lines([*events, *job.events(Version)]),
                remedy=(change, confirm[0]),
            )
        elif known.vendor == "torch" and known.deprecated and known.replaced_by:
            yield Found(
                title=f"{variable} is an old name: PyTorch 2.2 and later call it {known.replaced_by}",
                evidence=lines(events),
                ranks=job.ranks_of(events),
                severity=Severity.NOTE,
                remedy=(change,),
            )


_V = "gpu-1:71:71 [0] NCCL INFO NCCL version {}+cuda12.4\n"
fires_on = {
    "gone": "NCCL_TREE_THRESHOLD=0\n" + _V.format("2.28.9"),
    "not yet": "NCCL_RAS_ENABLE=1\n" + _V.format("2.21.5"),
    "PyTorch's old name": "NCCL_BLOCKING_WAIT=1\n",
}
silent_on = {
    "known": "NCCL_RAS_ENABLE=1\nNCCL_BUFFSIZE=4194304\n" + _V.format("2.28.9"),
    "no version told": "NCCL_RAS_ENABLE=1\n",
}

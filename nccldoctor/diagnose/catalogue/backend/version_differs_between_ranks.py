"""Ranks of one job run different versions of NCCL or RCCL.

NCCL speaks to itself only: what ranks exchange at start-up changes from version to version. Where they differ, the
bootstrap reads messages of the wrong length (`Message truncated : received 172 bytes instead of 64`), or waits for
bytes that never come, and all ranks hang in ncclCommInitRank. From 2.23 on NCCL compares versions itself, where it
gets that far. The usual reasons: hosts with different images, two copies of libnccl on LD_LIBRARY_PATH, a pip wheel
that shadows the system's library on some hosts.
Not a fault: several jobs in one input, each with one version; a job whose communicators never mix them.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.versions import Running, by_version, running, sentence, spelt
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.nccl import CommStart
from nccldoctor.model.events.trouble import MessageTruncated, VersionMismatch
from nccldoctor.model.events.usage import SymbolMissing
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Communicator, Evidence, Job

code = "BACKEND04"
name = "version-differs-between-ranks"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT03", "INIT07", "NET10", "HANG02", "HANG04", "CRASH01", "LOG01")
look_first = True
confirm = (
    "for h in $HOSTS; do ssh $h \"python -c 'import torch; print(torch.cuda.nccl.version(), torch.version.cuda, torch.__version__)'\"; done  # one line must repeat",
    'python -c \'import torch; torch.cuda.nccl.version(); print({l.split()[-1] for l in open("/proc/self/maps") if "nccl" in l})\'  # which file is really loaded',
)
remedy = (
    "docker run IMAGE@sha256:DIGEST …  # one image by digest for all ranks; costs a pull on each host",
    "unset LD_PRELOAD; export LD_LIBRARY_PATH=/usr/local/cuda/lib64  # without folders that hold another libnccl.so; costs nothing if they hold nothing else",
)


_WHICH = (
    "ldd $(python -c 'import importlib.util as u; print(u.find_spec(\"torch\").submodule_search_locations[0])')/lib/libtorch_cuda.so | grep nccl  # which file the loader finds",
    "pip list | grep -i nccl; echo $LD_LIBRARY_PATH $LD_PRELOAD  # two packages (cu11 and cu12) write the same file; the last one installed stays",
    "pip uninstall -y nvidia-nccl-cu11 nvidia-nccl-cu12; pip install --force-reinstall torch  # brings the NCCL that it was built with; costs a download",
    "unset LD_PRELOAD LD_LIBRARY_PATH  # where these name a folder with another libnccl.so; costs nothing if it holds nothing else",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: from NCCL's own comparison, else from the ranks' version lines, else from the bootstrap's words."""
    mismatch = next(iter(job.events(VersionMismatch)), None)
    if mismatch is not None:
        yield _named(job, mismatch)
        return
    if missing := job.events(SymbolMissing):
        program = missing[0].library or "the program"
        yield told_by(
            job,
            missing,
            f"{who(job, missing, 'A process')} loads an NCCL without {missing[0].symbol}, which {program} calls: "
            "another libnccl.so, mostly an older one, is found before its own",
            remedy=_WHICH,
        )
        return
    libraries = running(job)
    truncated = job.events(MessageTruncated)
    mixed, confidence = _mixed(job, libraries.values(), bool(truncated))
    if mixed:
        yield _differing(job, mixed, truncated, confidence)
    elif truncated:
        yield told_by(
            job,
            truncated,
            f"{_hosts(job, truncated)}the bootstrap got {truncated[0].received} bytes where "
            f"{truncated[0].expected} were due: ranks run different NCCL versions or builds, or two jobs crossed",
            confidence=Confidence.MEDIUM,
        )
    else:
        yield from _by_wording(job)


def _named(job: Job, event: VersionMismatch) -> Found:
    versions = {event.rank: event.version, event.other_rank: event.other_version}
    said = ", ".join(f"rank {rank} {spelt(number)}" for rank, number in sorted(versions.items()))
    return Found(
        title=f"NCCL's version differs between ranks: {said}; NCCL refuses to build the communicator",
        evidence=lines(job.events(VersionMismatch)),
        ranks=tuple(versions),
        hosts=job.hosts_of_ranks(versions) or job.hosts_of([event]),
    )


def _mixed(
    job: Job, libraries: Iterable[Running], truncated: bool
) -> tuple[list[Running], Confidence]:
    """The processes that run different versions in one communicator, or that could not build one together."""
    known = {one.process: one for one in libraries}
    for comm in job.communicators:
        members = [known[m.process] for m in comm.members if m.process in known]
        if len({m.name for m in members}) > 1:
            return members, Confidence.HIGH
    together = _together(job)
    alone = [one for one in known.values() if one.process not in together]
    if len({one.name for one in alone}) < 2 or len({one.library for one in alone}) > 1:
        return [], Confidence.LOW
    if truncated:
        return alone, Confidence.HIGH
    waiting = any(None in {m.process for m in c.members} for c in _of(job, alone))
    return (alone, Confidence.MEDIUM) if waiting else ([], Confidence.LOW)


def _together(job: Job) -> set[int | None]:
    """The processes that have built a communicator in which no rank is missing."""
    members = [{m.process for m in c.members} for c in job.communicators]
    return {process for processes in members if None not in processes for process in processes}


def _of(job: Job, members: Iterable[Running]) -> list[Communicator]:
    wanted = {m.process for m in members}
    return [c for c in job.communicators if c.size > 1 and wanted & {m.process for m in c.members}]


def _differing(
    job: Job,
    members: list[Running],
    truncated: list[MessageTruncated],
    confidence: Confidence,
) -> Found:
    groups = by_version(job, members)
    first = [group[0].event for group in groups.values()]
    ranks = {job.processes[m.process].rank for m in members}
    said = sentence(job, groups)
    outcome = (
        f"the bootstrap reads {truncated[0].received} bytes instead of {truncated[0].expected} and set-up hangs"
        if truncated
        else "ranks of one job must run one version"
    )
    return Found(
        title=f"NCCL's version differs between ranks: {said}; {outcome}",
        evidence=lines([*first, *truncated]),
        confidence=confidence,
        ranks=tuple(rank for rank in ranks if rank is not None),
        hosts=job.hosts_of(m.event for m in members),
    )


def _by_wording(job: Job) -> Iterable[Found]:
    """Init lines of one communicator that no single version prints: 2.21 put the API's name before `comm`."""
    forms: dict[str, dict[bool, CommStart]] = {}
    for start in job.events(CommStart):
        if start.comm_id is not None:
            forms.setdefault(start.comm_id, {}).setdefault(start.api is None, start)
    for ident, seen in sorted(forms.items()):
        if len(seen) == 2:
            old, new = seen[True], seen[False]
            yield told_by(
                job,
                [old, new],
                f"Rank {old.rank} of communicator {ident} writes the lines of NCCL 2.20 or older, "
                f"rank {new.rank} those of 2.21 or newer",
                confidence=Confidence.MEDIUM,
            )


def _hosts(job: Job, events: list[MessageTruncated]) -> str:
    hosts = job.hosts_of(events)
    return f"On {', '.join(hosts)} " if hosts else ""


_TORN = (
    "gpu-1:71:71 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.2<0>\n"
    "gpu-1:71:71 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    "gpu-1:71:75 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 172 bytes instead of 64\n"
    "gpu-2:81:81 [1] NCCL INFO NCCL version 2.26.2+cuda12.2\n"
    "gpu-2:81:81 [1] NCCL INFO ncclCommInitRank comm 0x3 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x74 - Init START\n"
)
_PAIR = (
    "gpu-1:71:71 [0] NCCL INFO NCCL version {0}\n"
    "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init COMPLETE\n"
    "gpu-2:81:81 [0] NCCL INFO NCCL version {1}\n"
    "gpu-2:81:81 [0] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init COMPLETE\n"
)

fires_on = {
    "PyTorch 2.2+, the loader": "ImportError: /opt/py/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister\n",
    "2.23+, NCCL's own check": "gpu-1:71:71 [0] init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 0 version 22703 rank 1 version 22602",
    "2.21 beside 2.26, hang in bootstrap": _TORN,
    "the same without the WARN": "\n".join(s for s in _TORN.split("\n") if "truncated" not in s),
    "2.18 beside 2.19 in one communicator": _PAIR.format("2.18.3+cuda12.1", "2.19.3+cuda12.1"),
    "truncated alone": "gpu-1:71:75 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 172 bytes instead of 64",
    "2.20 and 2.21, by their Init lines": (
        "gpu-1:71:71 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init START\n"
        "gpu-2:81:81 [0] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init START\n"
    ),
    "PyTorch's traceback alone": (
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, invalid usage "
        "(run with NCCL_DEBUG=WARN for details), NCCL version 2.27.3\n"
        "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        "[rank1]: Last error:\n"
        "[rank1]: Mismatched NCCL version detected : rank 0 version 22703 rank 1 version 22602\n"
    ),
}
silent_on = {
    "one version": _PAIR.format("2.28.9+cuda13.0", "2.28.9+cuda13.0"),
    "RCCL, one version": (
        "gpu-1:71:71 [0] NCCL INFO RCCL version : 2.21.5-HEAD:0cbce2a\ngpu-1:72:72 [1] NCCL INFO RCCL version : 2.21.5-HEAD:0cbce2a\n"
    ),
    "two jobs, one version each": _PAIR.format("2.28.9+cuda13.0", "2.28.9+cuda13.0")
    + _PAIR.format("2.21.5+cuda12.4", "2.21.5+cuda12.4")
    .replace("0xaa", "0xbb")
    .replace("gpu-1:71:71", "gpu-3:91:91")
    .replace("gpu-2:81:81", "gpu-4:95:95"),
}

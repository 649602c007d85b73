"""The environment audit: who sets which variable, who wins, and what the diagnoses of group ENV say of it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from nccldoctor.diagnose.catalogue import diagnoses
from nccldoctor.diagnose.catalogue.env import fallback_left_on
from nccldoctor.diagnose.engine import examine as examine_job
from nccldoctor.diagnose.engine import order, times_of
from nccldoctor.diagnose.settings import settings, unique
from nccldoctor.errors import DoctorError
from nccldoctor.grammars.environment import fault
from nccldoctor.knowledge.buffers import BUFFERS, memory
from nccldoctor.knowledge.channels import most
from nccldoctor.knowledge.environment import known_at, lookup
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import Version
from nccldoctor.model.events.watched import ProcessEnvironment
from nccldoctor.model.finding import Confidence, Finding, Role, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import Line

_FAMILIES = (
    "NCCL_",
    "RCCL_",
    "OFI_NCCL_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "TORCH_DISTRIBUTED_",
    "GLOO_",
    "nccl_",
)
_CODES = ("ENV", "BUF02", "BUF03")
ENVIRONMENT = "the environment"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One variable as one place sets it; `winner` is the place that NCCL listens to instead, None when it is this."""

    name: str
    value: str
    place: str
    line: int = 0
    winner: str | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """All assignments (the winning one of a name first), the findings, and lines of files that set nothing.

    `buffer_bytes` is the GPU memory that NCCL's buffers take on a rank for a communicator with `channels` channels,
    beside `buffer_bytes_default`.
    """

    assignments: tuple[Assignment, ...]
    findings: tuple[Finding, ...]
    useless: tuple[Line, ...]
    version: str | None
    channels: int
    buffer_bytes: int
    buffer_bytes_default: int


def audit(
    environment: Mapping[str, str],
    *,
    version: str | None,
    root: Path = Path("/"),
    place: str = ENVIRONMENT,
) -> Audit:
    """Audits an environment together with the configuration files that NCCL reads under `root`."""
    layers: list[list[Assignment]] = [
        [Assignment(n, v, place) for n, v in sorted(environment.items()) if _ours(n)]
    ]
    useless: list[Line] = []
    for file in _files(environment, root, version):
        found, lost = _read(file, root)
        layers.append(found)
        useless += lost
    assignments = _settle(layers)
    winning = [a for a in assignments if a.winner is None]
    sizes = {a.name: int(a.value) for a in winning if a.name in BUFFERS and a.value.isdigit()}
    channels = _channels(winning, most(version))
    return Audit(
        assignments=assignments,
        findings=_findings(winning, version),
        useless=tuple(useless),
        version=version,
        channels=channels,
        buffer_bytes=memory(channels, sizes),
        buffer_bytes_default=memory(most(version), {}),
    )


def environment_of(pid: int) -> tuple[dict[str, str], Path]:
    """The environment that a process was started with, and the root folder that it sees.

    Raises DoctorError when the process is not there, or is somebody else's.
    """
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except FileNotFoundError:
        raise DoctorError(
            f"There is no process {pid}; `pgrep -af python` lists those of Python"
        ) from None
    except PermissionError:
        raise DoctorError(
            f"Process {pid} is another user's: ask as that user, or with sudo"
        ) from None
    pairs = (
        part.partition("=") for part in raw.decode("utf-8", "replace").split("\0") if "=" in part
    )
    root = Path(f"/proc/{pid}/root")
    return {name: value for name, _, value in pairs}, root if os.access(root, os.X_OK) else Path(
        "/"
    )


def installed_version() -> str | None:
    """The version of the NCCL package that this Python would load, None when it has none."""
    for cuda in ("cu13", "cu12", "cu11"):
        try:
            return metadata.version(f"nvidia-nccl-{cuda}")
        except metadata.PackageNotFoundError:
            continue
    return None


def _ours(name: str) -> bool:
    return name.startswith(_FAMILIES) or lookup(name) is not None


def _files(environment: Mapping[str, str], root: Path, version: str | None) -> list[str]:
    """The files in the order in which they win (see knowledge.precedence)."""
    known = known_at("NCCL_CONF_FILE", version) is not False
    own = environment.get("NCCL_CONF_FILE") if known else None
    home = environment.get("HOME")
    nccl = own or (f"{home}/.nccl.conf" if home else None)
    rccl = f"{home}/.rccl.conf" if home else None
    wanted = [nccl, "/etc/nccl.conf", rccl, "/etc/rccl.conf"]
    return [f for f in wanted if f and (root / f.lstrip("/")).is_file()]


def _read(file: str, root: Path) -> tuple[list[Assignment], list[Line]]:
    """What a configuration file sets, and the lines in it that set nothing."""
    try:
        text = (root / file.lstrip("/")).read_text("utf-8", "replace")
    except OSError as error:
        return [], [Line(file, 0, f"cannot be read: {error.strerror}")]
    found: dict[str, Assignment] = {}
    lost = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign or not name or any(c.isspace() for c in name):
            lost.append(Line(file, number, line[:2000]))
        else:
            found.setdefault(name, Assignment(name, value.rstrip(), file, number))
    return list(found.values()), lost


def _settle(layers: Sequence[Sequence[Assignment]]) -> tuple[Assignment, ...]:
    winners: dict[str, Assignment] = {}
    settled = []
    for layer in layers:
        for one in layer:
            winner = winners.setdefault(one.name, one)
            settled.append(one if winner is one else replace(one, winner=winner.place))
    return tuple(sorted(settled, key=lambda a: (a.name, a.winner is not None)))


def _channels(winning: Iterable[Assignment], most_channels: int) -> int:
    """The most channels that these settings allow."""
    limits = [
        int(a.value)
        for a in winning
        if a.name in ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS") and a.value.isdigit() and int(a.value)
    ]
    return min([most_channels, *limits])


def _findings(winning: Sequence[Assignment], version: str | None) -> tuple[Finding, ...]:
    """What the diagnoses say, the grammar's faults among it."""
    events: list[Event] = [
        ProcessEnvironment(line=_line(a), variables={a.name: a.value}) for a in winning
    ]
    if version:
        events.append(Version(line=Line("--nccl", 0, f"NCCL version {version}"), version=version))
    job = Job(events=[(e, None) for e in events], evidence=[Evidence.ENVIRONMENT])
    wanted = [d for d in diagnoses() if d.code.startswith(_CODES)]
    found, _ = examine_job(job, wanted)
    told = {f.evidence[0] for f in found if f.code in ("ENV02", "ENV09")}
    more = [_ungrammatical(a) for a in winning if _line(a) not in told and fault(a.name, a.value)]
    return order([*found, *more, *_fallbacks(job)], wanted, times_of([job]))


def _line(one: Assignment) -> Line:
    return Line(one.place, one.line, f"{one.name}={one.value}"[:2000])


def _ungrammatical(one: Assignment) -> Finding:
    wrong = fault(one.name, one.value)
    message = wrong.message if wrong else "has a fault"
    return _finding(
        "ENV02",
        title=f"{one.name}={one.value}: {message} (character {wrong.column + 1 if wrong else 1})",
        severity=Severity.WARNING,
        remedy=(f"nccldoctor env --explain {one.name}",),
        evidence=(_line(one),),
    )


def _fallbacks(job: Job) -> list[Finding]:
    found = unique(s for s in settings(job) if fallback_left_on.is_fallback(s))
    if not found:
        return []
    names = " ".join(sorted(f"{s.variable}={s.value}" for s in found))
    price = "one channel costs most of the bandwidth (measured on 2 x H200: 327 to 22 GB/s)"
    slow = any("MAX" in s.variable for s in found)
    return [
        _finding(
            fallback_left_on.code,
            title=f"{names}: {price if slow else 'NCCL cannot choose what fits each size'}",
            severity=Severity.WARNING,
            remedy=(
                f"unset {' '.join(sorted(s.variable for s in found))}  # then: nccldoctor probe",
            ),
            evidence=tuple(s.event.line for s in found),
        )
    ]


def _finding(
    code: str,
    *,
    title: str,
    severity: Severity,
    remedy: tuple[str, ...],
    evidence: tuple[Line, ...],
) -> Finding:
    known = next(d for d in diagnoses() if d.code == code)
    return Finding(
        code=code,
        name=known.name,
        severity=severity,
        confidence=Confidence.HIGH,
        role=Role.INDEPENDENT,
        title=title,
        explanation=known.documentation.strip(),
        remedy=remedy,
        ranks=(),
        hosts=(),
        evidence=evidence,
    )

"""Report → the same report with pseudonyms for hosts, addresses, users, paths, pods and job names; equal stays equal."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from nccldoctor.model.finding import Finding
from nccldoctor.model.report import Report
from nccldoctor.model.source import Line

_PUBLIC_ADDRESSES = re.compile(r"127\.\d+\.\d+\.\d+|0\.0\.0\.0|255\.255\.255\.\d+|::1?")
_PUBLIC_PATHS = ("/dev/", "/proc/", "/sys/", "/etc/", "/usr/lib/", "/usr/local/cuda", "/lib/")
_LIBRARIES = re.compile(r".*?/((?:site|dist)-packages/(?:torch|nvidia|nccl|numpy)/.*)")
_PUBLIC_HOSTS = frozenset({"localhost", "host not told", ""})
_NAMING = re.compile(
    r"(?i)^(.*_)?(USER|LOGNAME|USERNAME|HOSTNAME|NODENAME|NODE_NAME|POD_NAME|POD_NAMESPACE|NAMESPACE|JOB_NAME"
    r"|JOBNAME|JOB_USER|JOB_ACCOUNT|RUN_NAME|PROJECT|MASTER_ADDR|HOSTID|NODELIST|LAUNCH_NODE_IPADDR)$"
)

_HEADER = re.compile(r"(?:^|[\s\]|>])([A-Za-z0-9][\w.\-]{0,80}):\d{1,8}:\d{1,8} (?:\[-?\d+\] )?")
_POD = re.compile(r"\[?pod/([a-z0-9][a-z0-9.\-]{0,80})/([\w.\-]{1,80})")
_LOGIN = re.compile(r"(?<![\w.\-])([A-Za-z_][\w.\-]{0,40})@([A-Za-z0-9][\w.\-]{1,80})")
_HOME = re.compile(r"/(?:home|Users)/([\w.\-]{2,40})")
_PATH = re.compile(r"(?<![\w.\-<>/:~])(~?(?:/[\w.\-+@=%,~]{1,200}){2,40}/?)")
_FQDN = re.compile(
    r"(?i)(?<![\w.\-/])((?:[a-z0-9][a-z0-9\-]{0,62}\.){1,6}"
    r"(?:com|net|org|io|edu|gov|dev|ai|cloud|local|lan|internal|corp|intra|int|svc|eu|de|uk|fr|jp|cn|kr|ch))(?![\w\-])"
)
_ADDRESSES = re.compile(
    r"(?<![\w.])(?:"
    r"\d{1,3}(?:\.\d{1,3}){3}"
    r"|(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}"
    r"|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}"
    r"|(?:[0-9a-fA-F]{1,4}:){2,7}:"
    r"|(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}"
    r")(?![\w]|\.\d)"
)


_ASSIGNED = re.compile(
    r"\b([A-Z][A-Z0-9_]{2,60})(?:=| set (?:by environment )?to )([\w.\-:/]{2,100})"
)
_CLOCK = re.compile(r"\d{1,2}:\d{2}:\d{2}")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}")
_SEPARATORS = re.compile(r"[-_.+\s\d]+")
_PLAIN = frozenset(
    re.split(
        " ",
        " nccl rccl debug rank ranks host out err stderr stdout log logs fr trace torch ras status verbose json jsonl"
        " txt dmesg kern kernel smi nvidia topo graph xml all reduce perf gz xz zst bz tar snapshot stack env bundle",
    )
)
_KEYED_BY_LOG = frozenset({"values", "networks", "stages", "by_op", "clocks"})


def redact(report: Report) -> Report:
    """The redacted report. Its `jobs` are empty: outputs read `facts`."""
    return redact_with_key(report)[0]


def redact_with_key(report: Report) -> tuple[Report, dict[str, str]]:
    """The redacted report, and pseudonym → original, to be kept at home."""
    names = _Names()
    _collect(report, names)
    hide = names.hide
    verdict = report.verdict
    hidden = replace(
        report,
        verdict=replace(
            verdict,
            headline=hide(verdict.headline),
            hosts=tuple(map(hide, verdict.hosts)),
            next=tuple(map(hide, verdict.next)),
        ),
        findings=tuple(_finding(f, hide) for f in report.findings),
        not_checked=tuple(
            replace(n, because=hide(n.because), turn_on=hide(n.turn_on)) for n in report.not_checked
        ),
        jobs=(),
        facts=tuple(_walk(facts, hide) for facts in report.facts),
        coverage=replace(
            report.coverage,
            unknown=tuple(
                replace(u, shape=hide(u.shape), first=_line(u.first, hide))
                for u in report.coverage.unknown
            ),
        ),
        inputs=tuple(replace(s, path=hide(s.path), note=hide(s.note)) for s in report.inputs),
        notes=tuple(map(hide, report.notes)),
    )
    return hidden, names.key()


class _Names:
    """Pseudonyms, given in the order of first sight."""

    def __init__(self) -> None:
        self._pseudonyms: dict[tuple[str, str], str] = {}
        self._originals: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._words: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        self._literal: re.Pattern[str] | None = None
        self._whole: re.Pattern[str] | None = None

    def learn(self, kind: str, name: str) -> None:
        """This name is to be hidden wherever it stands."""
        plain = name.lower()
        if plain in _PUBLIC_HOSTS or plain in self._words or plain.isdigit():
            return
        if not re.search(r"[a-z0-9]", plain) or _ADDRESSES.fullmatch(name):
            return
        self._words[plain] = self._pseudonym(kind, plain, name)
        self._literal = None

    def learn_path(self, path: str) -> None:
        """This input's path is to be hidden; a plain file name such as `rank3.out` may stay."""
        *folders, name = self._without_words(path).split("/")
        hidden = [
            part if part in ("", ".", "..", "~") else self._pseudonym("folder", part, part)
            for part in folders
        ]
        if not all(word in _PLAIN for word in _SEPARATORS.split(name.lower())):
            ending = PurePosixPath(name).suffix
            ending = ending if _ENDING.fullmatch(ending) else ""
            name = self._pseudonym("file", name, name) + ending
        result = "/".join([part for part in hidden if part] + [name])
        if result != path and len(path) > 3:
            self._paths[path] = result

    def hide(self, text: str) -> str:
        """The text with every known name, address and path replaced."""
        if not text:
            return text
        if self._paths:
            self._whole = self._whole or _alternation(self._paths, 0)
            text = self._whole.sub(lambda m: self._paths[m[0]], text)
        text = _PATH.sub(self._path, text)
        text = _LOGIN.sub(lambda m: f"{self._pseudonym('user', m[1], m[1])}@{m[2]}", text)
        text = self._without_words(text)
        text = _FQDN.sub(lambda m: self._pseudonym("host", m[0].lower(), m[0]), text)
        return _ADDRESSES.sub(self._address, text)

    def _without_words(self, text: str) -> str:
        if not self._words:
            return text
        self._literal = self._literal or _alternation(self._words)
        return self._literal.sub(lambda m: self._words[m[0].lower()], text)

    def key(self) -> dict[str, str]:
        return dict(sorted(self._originals.items()))

    def _pseudonym(self, kind: str, name: str, original: str) -> str:
        if (kind, name) not in self._pseudonyms:
            self._counts[kind] += 1
            given = f"{kind}-{self._counts[kind]}"
            self._pseudonyms[kind, name] = given
            self._originals[given] = original
        return self._pseudonyms[kind, name]

    def _address(self, match: re.Match[str]) -> str:
        if _PUBLIC_ADDRESSES.fullmatch(match[0]) or _CLOCK.fullmatch(match[0]):
            return match[0]
        return self._pseudonym("address", match[0].lower(), match[0])

    def _path(self, match: re.Match[str]) -> str:
        path = match[0]
        if path.startswith(_PUBLIC_PATHS):
            return path
        library = _LIBRARIES.fullmatch(path)
        if library:
            return f"/{library[1]}"
        tail = PurePosixPath(path)
        ending = tail.suffix if _ENDING.fullmatch(tail.suffix) else ""
        directory = self._pseudonym("folder", str(tail.parent), str(tail.parent))
        return f"/{directory}/{self._pseudonym('file', tail.name, tail.name)}{ending}"


def _alternation(words: Iterable[str], flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Longer names first; names of under four characters only as whole words."""
    parts = [
        re.escape(w) if len(w) > 3 else rf"(?<![A-Za-z0-9]){re.escape(w)}(?![A-Za-z0-9])"
        for w in sorted(words, key=lambda w: (-len(w), w))
    ]
    return re.compile("|".join(parts), flags)


def _collect(report: Report, names: _Names) -> None:
    for facts in report.facts:
        for host in facts.get("hosts", ()):
            _learn_host(names, host["name"])
        for rank in facts.get("ranks", ()):
            _learn_host(names, rank["host"] or "")
        for variable in facts.get("environment", ()):
            if _NAMING.match(variable["name"]):
                for value in variable["values"]:
                    names.learn("name", value)
    for host in (*report.verdict.hosts, *(h for f in report.findings for h in f.hosts)):
        _learn_host(names, host)
    for text in _texts(report):
        for match in _HEADER.finditer(text):
            _learn_host(names, match[1])
        for match in _POD.finditer(text):
            names.learn("pod", match[1])
            names.learn("container", match[2])
        for match in _LOGIN.finditer(text):
            names.learn("user", match[1])
            _learn_host(names, match[2])
        for match in _HOME.finditer(text):
            names.learn("user", match[1])
        for match in _ASSIGNED.finditer(text):
            if _NAMING.match(match[1]):
                names.learn("name", match[2])
    for source in report.inputs:
        names.learn_path(source.path)


def _learn_host(names: _Names, host: str) -> None:
    names.learn("host", host)
    short, dot, _ = host.partition(".")
    if dot and not short.isdigit():
        names.learn("host", short)


def _texts(report: Report) -> Iterator[str]:
    yield report.verdict.headline
    for finding in report.findings:
        yield finding.title
        yield finding.explanation
        for line in finding.evidence:
            yield line.text
            yield line.file
    for unknown in report.coverage.unknown:
        yield unknown.first.text
    for source in report.inputs:
        yield source.path
        yield source.note
    for facts in report.facts:
        yield from _strings(facts)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def _finding(finding: Finding, hide: Callable[[str], str]) -> Finding:
    return replace(
        finding,
        title=hide(finding.title),
        explanation=hide(finding.explanation),
        remedy=tuple(map(hide, finding.remedy)),
        hosts=tuple(map(hide, finding.hosts)),
        evidence=tuple(_line(line, hide) for line in finding.evidence),
    )


def _line(line: Line, hide: Callable[[str], str]) -> Line:
    return Line(hide(line.file), line.number, hide(line.text))


def _walk(value: Any, hide: Callable[[str], str], of_log: bool = False) -> Any:
    """`of_log`: the keys of this mapping are words of a log too, not names of our schema."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {
            hide(key) if of_log else key: _walk(inner, hide, key in _KEYED_BY_LOG)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_walk(inner, hide) for inner in value]
    return value

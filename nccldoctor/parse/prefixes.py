"""Takes off what launchers, collectors and viewers put in front of lines, and keeps what it tells of the speaker."""

import html
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise

from nccldoctor.model.source import NOBODY, Speaker

MOST_LAYERS = 12
LONGEST_PARTIAL = 1 << 20

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[(?:0|[0-9;]{2,8})m")
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_HEADER = re.compile(r"\S*:\d+:\d+ |\[rank\d|\[?[IWEF]\d{3,4} |\[[IWEF] \w|Traceback \(")

_SURE: dict[str, list[str]] = {
    "[": [
        r"\[rank(?:: )?(?P<rank>\d+)\]:? ?",
        r"\[RANK (?P<rank>\d+)\]:? ?",
        r"\[(?:\d+|[\w.-]+@\d+),(?P<task>\d+)\]<std(?:out|err|diag)>: ?",
        r"\[pod/(?P<host>[^\]/\s]+)/[^\]\s]+\] ?",
        r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+)\] ",
        r"\[\d{6,}\.\d+\] \[(?P<host>[\w.-]+):(?P<pid>\d+):\d+\] +",
        r"\[[A-Za-z_]+(?P<local>\d+)(?:\|\d+)?\]: ?",
    ],
    "(": [
        r"\([A-Za-z][\w.]*(?:\[rank=(?P<rank>\d+)\])? pid=(?P<pid>\d+)(?:, ip=(?P<host>[^)\s,]+))?\)(?: |$)",
        r"\([A-Za-z][\w.]* (?:rank=(?P<rank>\d+)|(?:TP|DP|PP|EP)\d+(?: (?:TP|DP|PP|EP)\d+)*) pid=(?P<pid>\d+)\)(?: |$)",
    ],
    "0": [
        rf"(?P<time>{_ISO}) (?:stdout|stderr) (?P<cri>[FP]) ",
        rf"(?P<time>{_ISO}) (?P<host>[\w.-]+) [\w./@-]+(?:\[(?P<pid>\d+)\])?: ",
        rf"(?P<time>{_ISO})[ \t]+(?:[\w.\-]+/[\w./\-]+[ \t]+)?(?:- )?",
        r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})? +",
    ],
    ">": [r"(?:> ?)+"],
    "│": [r"[│┃║╎┆┊] ?"],
    "A": [
        rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} [ \d]\d \d\d:\d\d:\d\d \d{{4}}(?= ?\[[^\]\s]*,\d+\]<std)",
        rf"{_MONTH} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]+) [\w./@-]+(?:\[(?P<pid>\d+)\])?: ",
    ],
    "E": [
        r"(?:ERROR|INFO|WARNING|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w./]+:\d+\]|[\w./]+:\d+\]) ?",
    ],
    "a": [
        r"[A-Za-z][\w.-]{0,250}[-_]\d+ +\| ",
        r"[\w-]+\.[A-Z]\d+ \[std(?:out|err)\] ",
    ],
}
_LOOSE = [
    re.compile(form)
    for form in (
        r" *(?P<task>\d{1,6}): ?(?!\d\d:\d\d\b)",
        r" *\d{1,9}[:\t ] *",
        r"\[\d+\] +",
        r"(?P<host>[A-Za-z][\w.-]{0,80}\d[\w.-]{0,80}): ",
        r"(?P<host>[a-z0-9][a-z0-9.-]{0,250}-\d{1,9}) [a-z][a-z0-9-]* ",
    )
]
"""Forms that ordinary text also has; taken off only where a known head or a sure prefix follows."""

_AUTOLINK = re.compile(r"\[([^\]\s]{1,200})\]\(https?://[^)\s]{1,200}\)")
"""What mail programs and trackers make of file names and addresses: `[net_ib.cc:101](http://net_ib.cc:101/)`."""
_BOXES = "│┃║╎┆┊"
_GLUED = re.compile(r"\[rank(?P<rank>\d+)\]: ?")

_AMBIGUOUS = {
    "task": re.compile(r" *(?P<task>\d{1,6}): ?(?!\d\d:\d\d\b)"),
    "hydra": re.compile(r"\[(?P<task>\d{1,6})\] ?"),
    "host": re.compile(r"(?P<host>[A-Za-z][\w.-]{0,80}\d[\w.-]{0,80}): "),
    "pod": re.compile(r"(?P<host>[a-z0-9][a-z0-9.-]{0,250}-\d{1,9}) [a-z][a-z0-9-]* "),
}
"""Forms that ordinary text also has; they count as prefixes only where nearly every line of the file has one."""


def _compiled() -> dict[str, list[re.Pattern[str]]]:
    table = {first: [re.compile(form) for form in forms] for first, forms in _SURE.items()}
    loggers = table["E"]
    for digit in "123456789":
        table[digit] = table["0"]
    upper = table["A"] + table["a"]
    for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
        table[letter] = upper if letter in "MTWFSJAOND" else table["a"]
        table[letter.lower()] = table["a"]
    for letter in "DEIW":
        table[letter] = loggers + table[letter]
    for box in _BOXES:
        table[box] = table["│"]
    return table


_FORMS = _compiled()


def _sure(text: str) -> re.Match[str] | None:
    for form in _FORMS.get(text[:1], ()):
        match = form.match(text)
        if match is not None:
            return match
    return None


def _loose(text: str, depth: int = 0) -> re.Match[str] | None:
    for form in _LOOSE:
        match = form.match(text)
        if match is None:
            continue
        rest = text[match.end() :]
        if _HEADER.match(rest) or _sure(rest) or (depth < 3 and _loose(rest, depth + 1)):
            return match
    return None


@dataclass(slots=True)
class _Told:
    """What the prefixes of one line told so far; outer prefixes come first, later ones do not overwrite them."""

    rank: int | None = None
    task: int | None = None
    local: int | None = None
    host: str | None = None
    pid: int | None = None
    time: datetime | None = None
    partial: bool = False

    def take(self, match: re.Match[str]) -> None:
        for name, value in match.groupdict().items():
            if value is None or name == "app":
                continue
            if name == "cri":
                self.partial = value == "P"
            elif name == "time":
                self.time = self.time or moment(value)
            elif name == "host":
                self.host = self.host or value
            elif getattr(self, name) is None:
                setattr(self, name, int(value))

    @property
    def task_is_rank(self) -> bool:
        """Nothing better than the launcher's task number is known."""
        return self.rank is None and self.local is None

    def speaker(self) -> Speaker:
        rank = self.task if self.task_is_rank else self.rank
        return Speaker(
            host=self.host, pid=self.pid, rank=rank, local_rank=self.local, time=self.time
        )


LONGEST_PREFIX = 600
"""Characters in which a prefix and the header behind it must lie."""


class Prefixes:
    """Peels the lines of one file, in order; `sample` are some of its lines, to decide on forms that text also has."""

    def __init__(self, sample: Iterable[str] = ()) -> None:
        self.by_task = False
        self._partial: dict[int, str] = {}
        self._ambiguous = _settled(sample)

    def peel(self, text: str) -> tuple[str, Speaker]:
        """The line without its prefixes, and what they told. A partial line of a container comes with its rest.

        `by_task` then says whether the rank is a launcher's task number, which is a node's where a task is a torchrun.
        """
        self.by_task = False
        if "\x1b" in text or "[0m" in text or "[3" in text:
            text = _COLOUR.sub("", text)
        if "](http" in text:
            text = _AUTOLINK.sub(r"\1", text)
        if "&lt;" in text or "&gt;" in text:
            text = html.unescape(text)
        if text.startswith('{"') and '"log"' in text[:4096]:
            return self._docker(text)
        told: _Told | None = None
        for _ in range(MOST_LAYERS):
            match = self._match(text)
            if match is None or not match.end():
                break
            told = told or _Told()
            told.take(match)
            if text[0] in _BOXES:
                text = text.rstrip().rstrip(_BOXES).rstrip()
            text = text[match.end() :]
        if told is None or told.rank is None:
            text, told = _glued(text, told)
        if told is None and not self._partial:
            return text, NOBODY
        self.by_task = told is not None and told.task is not None and told.task_is_rank
        return self._joined(text, told or _Told())

    def _match(self, text: str) -> re.Match[str] | None:
        head = text[:LONGEST_PREFIX]
        match = _sure(head)
        if match is None and self._ambiguous:
            match = self._ambiguous.match(head)
        return match or _loose(head)

    def _joined(self, text: str, told: _Told) -> tuple[str, Speaker]:
        if told.partial:
            held = self._partial.get(0, "")
            if len(held) < LONGEST_PARTIAL:
                self._partial[0] = held + text
            return "", told.speaker()
        if self._partial:
            text = self._partial.pop(0) + text
        return text, told.speaker()

    def _docker(self, text: str) -> tuple[str, Speaker]:
        try:
            entry = json.loads(text)
            inner, time = entry["log"], entry.get("time")
        except (ValueError, KeyError, TypeError, RecursionError):
            return text, NOBODY
        if not isinstance(inner, str):
            return text, NOBODY
        if not inner.endswith("\n") and len(inner) < LONGEST_PARTIAL:
            self._partial[0] = (self._partial.get(0, "") + inner)[:LONGEST_PARTIAL]
            return "", NOBODY
        inner = self._partial.pop(0, "") + inner.rstrip("\r\n")
        rest, speaker = self.peel(inner) if not inner.startswith('{"log"') else (inner, NOBODY)
        if speaker.time is None and isinstance(time, str):
            speaker = Speaker(
                host=speaker.host,
                pid=speaker.pid,
                rank=speaker.rank,
                local_rank=speaker.local_rank,
                time=moment(time),
            )
        return rest, speaker


def strip(text: str) -> tuple[str, Speaker]:
    """One line alone: only forms that ordinary text does not have are taken off."""
    return Prefixes().peel(text)


def moment(text: str) -> datetime | None:
    """An ISO-like time; without a zone it is read as UTC, so that only differences mean anything."""
    text = text.replace(",", ".").replace("Z", "+00:00").replace(" ", "T", 1)
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    text = re.sub(r"\.(\d{1,5})(?=$|[+-])", lambda m: "." + m[1].ljust(6, "0"), text)
    text = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.astimezone(timezone.utc) if time.tzinfo else time.replace(tzinfo=timezone.utc)


def _glued(text: str, told: _Told | None) -> tuple[str, _Told | None]:
    """A progress bar without a line break often stands in front of `[rank3]:`."""
    if "[rank" not in text:
        return text, told
    match = _GLUED.search(text)
    if match is None:
        return text, told
    told = told or _Told()
    told.take(match)
    return text[match.end() :], told


def _settled(sample: Iterable[str]) -> re.Pattern[str] | None:
    """The ambiguous form that nearly every line of the sample has, if there is one."""
    lines = [line for line in (_COLOUR.sub("", s) for s in sample) if line.strip()]
    if len(lines) < 5:
        return None
    for name, form in _AMBIGUOUS.items():
        matches = [match for match in map(form.match, lines) if match]
        if len(matches) * 10 < len(lines) * 9:
            continue
        labels = [match[1] for match in matches]
        if name in ("task", "hydra"):
            numbers = [int(label) for label in labels]
            counted = sum(b - a == 1 for a, b in pairwise(numbers))
            if len(set(numbers)) * 2 > len(numbers) or counted * 10 > len(numbers) * 9:
                return re.compile(re.sub(r"\?P<\w+>", "?:", form.pattern))
        elif len(set(labels)) * 2 > len(labels):
            continue
        return form
    return None

"""Pseudonyms: which words of a stranger's text are names, and what stands in their place; equal stays equal."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

_PUBLIC_ADDRESSES = re.compile(r"127\.\d+\.\d+\.\d+|0\.0\.0\.0|255\.255\.255\.\d+|::1?")
_PUBLIC_PATHS = ("/dev/", "/proc/", "/sys/", "/etc/", "/usr/lib/", "/usr/local/cuda", "/lib/")
_LIBRARIES = re.compile(r".*?/((?:site|dist)-packages/(?:torch|nvidia|nccl|numpy)/.*)")
_PUBLIC_HOSTS = frozenset({"localhost", "host unknown", ""})
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
_PEER = re.compile(r"(?<![\w.\-:])([A-Za-z][\w.\-]{1,80})<\d{1,5}>")
_PORT = re.compile(r"[(\[]([A-Za-z][\w.\-]{1,80})(?:, ?|\]:|:)\d{2,5}[)\]]?")
_HOST_IS = re.compile(r"(?i)\b(?:host|hostname|node|nodename)\s{0,8}[:=]\s{0,8}([\w.\-]{2,80})")
_SYSLOG = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.+\-Z]{8,24}) ([\w.\-]{2,80}) \w"
)
_LIKE_A_HOST = re.compile(r"[\w.\-]*[\d\-][\w.\-]*")


class Pseudonyms:
    """The names learnt, and their pseudonyms, given in the order of first sight."""

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

    def learn_host(self, host: str) -> None:
        """This host's name, and its short form, are to be hidden."""
        self.learn("host", host)
        short, dot, _ = host.partition(".")
        if dot and not short.isdigit():
            self.learn("host", short)

    def learn_variable(self, variable: str, value: str) -> None:
        """The value is to be hidden if variables of this name hold names of people, hosts, jobs or pods."""
        if _NAMING.match(variable):
            self.learn("name", value)

    def learn_text(self, text: str) -> None:
        """The names that this text itself marks as such are to be hidden."""
        for match in _HEADER.finditer(text):
            self.learn_host(match[1])
        for guess in (_PEER, _PORT, _HOST_IS, _SYSLOG):
            for match in guess.finditer(text):
                if _LIKE_A_HOST.fullmatch(match[1]):
                    self.learn_host(match[1].rstrip("."))
        for match in _POD.finditer(text):
            self.learn("pod", match[1])
            self.learn("container", match[2])
        for match in _LOGIN.finditer(text):
            self.learn("user", match[1])
            self.learn_host(match[2])
        for match in _HOME.finditer(text):
            self.learn("user", match[1])
        for match in _ASSIGNED.finditer(text):
            self.learn_variable(match[1], match[2])

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
        """Pseudonym → original."""
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

"""A rally over marker files, for hosts or ranks that write into one run folder."""

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from nccldoctor.collect.rally import Alarm

_MARKERS = ".nccldoctor"
"""Left out by `evidence`, so that no report takes the markers for evidence."""


@dataclass(slots=True)
class Folder:
    """One nccldoctor, `name`, among those that share `folder`; what a folder refuses is left undone."""

    folder: Path
    name: str
    _written: list[Path] = field(default_factory=list)
    _read: dict[str, Alarm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._write(f"agent.{self.name}", "")

    def call(self, alarm: Alarm) -> None:
        self._write(f"alarm.{_plain(alarm.origin)}", json.dumps(alarm.to_dict()))

    def alarms(self) -> list[Alarm]:
        for file in self._glob("alarm.*"):
            if file.name not in self._read:
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                    self._read[file.name] = Alarm.from_dict(json.loads(file.read_text()))
        return list(self._read.values())

    def secure(self, origin: str) -> None:
        self._write(f"secured.{_plain(origin)}.{self.name}", "")

    def secured(self, origin: str) -> bool:
        done = {f.name for f in self._glob(f"secured.{_plain(origin)}.*")}
        agents = {f.name.partition(".")[2] for f in self._glob("agent.*")}
        return all(f"secured.{_plain(origin)}.{agent}" in done for agent in agents)

    def others(self) -> int:
        return len({f.name for f in self._glob("agent.*")} - {f"agent.{self.name}"})

    def leave(self) -> None:
        """Removes this one's own files, and the folder of markers with the last."""
        for file in self._written:
            with contextlib.suppress(OSError):
                file.unlink()
        with contextlib.suppress(OSError):
            (self.folder / _MARKERS).rmdir()

    def _glob(self, pattern: str) -> list[Path]:
        try:
            return sorted((self.folder / _MARKERS).glob(pattern))
        except OSError:
            return []

    def _write(self, name: str, text: str) -> None:
        target = self.folder / _MARKERS / name
        with contextlib.suppress(OSError):
            target.parent.mkdir(exist_ok=True)
            part = target.with_name(f".{name}.part")
            part.write_text(text)
            part.replace(target)
            self._written.append(target)


def _plain(origin: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in origin)

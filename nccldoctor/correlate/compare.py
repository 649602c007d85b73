"""Lanes, divergences and transfers together: who called what, how far each came, and which ends do not meet."""

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.correlate import align, lanes, recorded, transfers
from nccldoctor.correlate.places import Places, Reader
from nccldoctor.model.digest import Digest
from nccldoctor.model.events.ras import RasSnapshot
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.torch import DumpSignal, GlooError, PythonException, WatchdogTimeout
from nccldoctor.model.events.trouble import ErrorReturned, PeerClosed, Warned
from nccldoctor.model.events.watched import HangObserved
from nccldoctor.model.job import Divergence, Lane, Transfer

_TROUBLE = (
    HangObserved,
    RasSnapshot,
    RecorderDump,
    DumpSignal,
    GlooError,
    PythonException,
    WatchdogTimeout,
    ErrorReturned,
    PeerClosed,
    Warned,
)


@dataclass(frozen=True, slots=True)
class Compared:
    """All lanes, the first difference per communicator and source, and point-to-point calls that do not meet."""

    lanes: list[Lane]
    divergences: list[Divergence]
    transfers: list[Transfer]


def compare(places: Places, digests: Sequence[Digest], reader: Reader) -> Compared:
    """Compares the calls of all ranks; `reader` re-reads calls of a log."""
    tracks = recorded.tracks(places, digests)
    divergences, lost = align.diverge(places, digests, tracks, reader, _is_calm(digests))
    return Compared(
        lanes=align.restore(lanes.build(places, digests, tracks), lost),
        divergences=divergences,
        transfers=transfers.unmatched(places, digests),
    )


def _is_calm(digests: Sequence[Digest]) -> bool:
    """Does nothing say that a call failed or waited too long, and was nobody led to ask what the ranks do?"""
    return not any(isinstance(e, _TROUBLE) for d in digests for e in d.events)

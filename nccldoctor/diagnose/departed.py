"""Ranks that ended without an error while others still called collectives, and lost the connection to them."""

from collections.abc import Iterable

from nccldoctor.diagnose import places
from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, ranges, who_ranks
from nccldoctor.model.events.torch import GlooError, ProcessEnded, PythonException
from nccldoctor.model.events.trouble import PeerClosed
from nccldoctor.model.finding import Confidence
from nccldoctor.model.job import Job


def left_early(job: Job) -> Iterable[Found]:
    """Exit code 0 on some ranks, and a lost connection on the others: told where nccldoctor saw every rank end."""
    ended = {e.ended_rank: e for e in job.events(ProcessEnded) if e.ended_rank is not None}
    gone = sorted(r for r, e in ended.items() if e.exit_code == 0)
    lost = [
        *(e for e in job.events(GlooError) if e.kind == "peer-closed"),
        *job.events(PeerClosed),
    ]
    calling = [r for r in job.ranks_of(lost) if r not in gone]
    killed = [e for e in ended.values() if e.exit_code < 0 and not e.by_launcher]
    if not gone or not calling or killed or len(gone) + len(calling) < len(ended) - _stopped(ended):
        return
    frames = {
        rank: frame
        for e in job.events(PythonException)
        if (rank := job.rank_of(e)) in calling and (frame := places.user_frame(e.frames))
    }
    at = places.grouped({rank: frame for rank, frame in frames.items() if rank is not None})
    many = len(gone) > len(calling)
    still = f"rank{'s' * (len(calling) > 1)} {ranges(calling)} {'was' if len(calling) == 1 else 'were'} still calling"
    yield Found(
        title=(
            f"{who_ranks(gone, job.hosts_of_ranks(gone))} ended without an error (exit code 0) while {still} collectives"
            + (f" ({at})" if at else "")
        ),
        evidence=(*(ended[r].line for r in gone[:2]), *lines(lost)[:3]),
        confidence=Confidence.MEDIUM,
        ranks=tuple(calling if many else gone),
        hosts=job.hosts_of_ranks(calling if many else gone),
        explanation=(
            "A rank that returns early, from a loop with fewer batches or a branch of its own, leaves the others alone in "
            "their next collective; where most have ended, the others call one too many."
        ),
    )


def _stopped(ended: dict[int, ProcessEnded]) -> int:
    """Ranks that the launcher ended because others had failed: they say nothing."""
    return sum(e.by_launcher for e in ended.values())

"""After a failure: each device alone, then the pairs of those that pass, as small jobs of their own."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from nccldoctor.collect.probe.launch import Failure, Place
from nccldoctor.collect.probe.plan import rounds
from nccldoctor.collect.probe.session import Session, start


def isolate(session: Session) -> tuple[list[dict[str, Any]], list[Failure]]:
    """Each local rank alone, then every local pair, as jobs of their own: rows and failures in global ranks."""
    rows: list[dict[str, Any]] = []
    failures: list[Failure] = []
    order = [place.rank for place in session.places]
    by_rank = {place.rank: place for place in session.places}
    at_once = len(order) if session.device == "cuda" else 1

    def together(kind: str, parties: Sequence[tuple[int, ...]]) -> list[bool]:
        with ThreadPoolExecutor(max_workers=at_once) as pool:
            jobs = [
                pool.submit(_small_job, session, kind, tuple(by_rank[rank] for rank in party))
                for party in parties
            ]
        results = [job.result() for job in jobs]
        for found, failure, _ in results:
            rows.extend(found)
            failures.extend([failure] if failure else [])
        return [ok for _, _, ok in results]

    alone = together("single", [(rank,) for rank in order])
    sound = [rank for rank, ok in zip(order, alone, strict=True) if ok]
    for meeting in rounds(["here"] * len(sound)):
        together("pair", [(sound[a], sound[b]) for a, b in meeting])
    return rows, failures


def _small_job(
    session: Session, kind: str, places: tuple[Place, ...]
) -> tuple[list[dict[str, Any]], Failure | None, bool]:
    ranks = tuple(place.rank for place in places)
    title = f"{kind} {'-'.join(map(str, ranks))}"
    outcome = start(session, kind, title.replace(" ", "-"), places=places)
    for row in outcome.rows:
        row.update(
            group=kind,
            members=list(ranks),
            wrong_by_rank={str(ranks[int(r)]): n for r, n in row["wrong_by_rank"].items()},
            rank_us={str(ranks[int(r)]): t for r, t in row["rank_us"].items()},
        )
    failure = outcome.failure and replace(outcome.failure, step=title, ranks=ranks, missing=())
    wrong = sum(row["wrong"] for row in outcome.rows)
    state = failure.kind if failure else f"{wrong} wrong" if wrong else "ok"
    session.say(f"{title}: {state}")
    return outcome.rows, failure, failure is None and not wrong

"""Lanes and divergences together: what the job needs to know of who called what, and how far each came."""

from collections.abc import Sequence

from nccldoctor.correlate import align, lanes, recorded
from nccldoctor.correlate.places import Places, Reader
from nccldoctor.model.digest import Digest
from nccldoctor.model.job import Divergence, Lane


def compare(
    places: Places, digests: Sequence[Digest], reader: Reader
) -> tuple[list[Lane], list[Divergence]]:
    """All lanes, and the first difference per communicator and source."""
    tracks = recorded.tracks(places, digests)
    divergences, lost = align.diverge(places, digests, tracks, reader)
    return align.restore(lanes.build(places, digests, tracks), lost), divergences

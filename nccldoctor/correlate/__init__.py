"""Joins the digests of all sources into one `Job` per job in the input; judges nothing."""

from nccldoctor.correlate.facts import facts
from nccldoctor.correlate.job import build

__all__ = ["build", "facts"]

"""Joins the digests of all sources into one `Job` per job in the input; judges nothing."""

"""Processes that died: which was first, and of what."""

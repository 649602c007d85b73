"""Hangs: who keeps whom waiting, in which call, and where."""

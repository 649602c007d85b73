"""Checks a training script's syntax tree; imports and runs nothing of it."""

from nccldoctor.lint.engine import check, check_paths

__all__ = ["check", "check_paths"]

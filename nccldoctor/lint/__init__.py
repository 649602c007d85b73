"""Checks a training script's syntax tree; imports and runs nothing of it."""

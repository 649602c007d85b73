"""Logs: what the evidence itself lacks."""

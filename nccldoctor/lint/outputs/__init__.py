"""Writes findings of a check: text for people, JSON, SARIF for code scanning, annotations for GitHub."""

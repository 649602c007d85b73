"""Report in, bytes out: terminal, HTML, JSON, Markdown; pure functions that compute nothing."""

"""Set-up: processes find each other, get their GPUs, and build communicators."""

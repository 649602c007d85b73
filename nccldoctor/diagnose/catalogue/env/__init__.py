"""Environment: what the variables do that are set, and what was meant."""

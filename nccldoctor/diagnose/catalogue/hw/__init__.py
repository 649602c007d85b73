"""Hardware: GPUs and their links."""

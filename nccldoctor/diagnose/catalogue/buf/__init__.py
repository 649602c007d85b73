"""Buffers and memory: of the GPU, of the host, shared between processes."""

"""nccldoctor: evidence of an NCCL job in, one verdict with its proof out."""

__version__ = "0.1.0"

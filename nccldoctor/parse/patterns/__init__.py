"""All log patterns: `NCCL` over the messages behind an NCCL header, `TEXT` over every other line."""

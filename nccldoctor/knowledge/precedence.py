"""Where NCCL and RCCL take variables from, the first place that sets one wins."""

PRECEDENCE = (
    "the environment of the process",
    "the file that NCCL_CONF_FILE names (2.23 and later), or else ~/.nccl.conf (RCCL: ~/.rccl.conf)",
    "/etc/nccl.conf (RCCL: /etc/rccl.conf)",
)
"""Source: NCCL user guide, environment variables. Lines are NAME=VALUE without blanks; `#` begins a comment line."""

FILES = ("/etc/nccl.conf", "~/.nccl.conf", "/etc/rccl.conf", "~/.rccl.conf")

"""Variables: what NCCL refuses of them, and how a job's output shows them; and lines that collectors leave out."""

from nccldoctor.model.events import machine, trouble
from nccldoctor.parse.pattern import Pattern

NCCL = [
    Pattern(
        trouble.BadToken,
        "Unrecognized element token",
        r'Unrecognized element token "(?P<token>[^"]*)" when parsing "(?P<value>[^"]*)"',
        {"2.24+": 'Unrecognized element token "Rign" when parsing "Rign"'},
    ),
    Pattern(
        trouble.BadValue,
        "Invalid value ",
        r"^Invalid value (?P<value>.*?) for (?P<variable>[A-Z][A-Z0-9_]+), using default (?P<default>-?\w+)",
        {
            "2.3-2.30": "Invalid value 99999999999999999999 for NCCL_BUFFSIZE, using default -2.",
        },
    ),
]

TEXT = (
    [
        Pattern(
            machine.VariableShown,
            prefix,
            rf"^\s*(?:\++ )?(?:export |declare -x |ENV )?(?P<variable>{prefix}[A-Z0-9_]*)="
            r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s;]*);?\s*$",
            {
                "env": f"{prefix}X=1",
                "bash -x": f"+ export {prefix}X=1",
                "quoted": f'{prefix}X="INIT,ENV"',
            },
        )
        for prefix in ("NCCL_", "RCCL_", "TORCH_", "nccl_")
    ]
    + [
        Pattern(
            machine.VariableShown,
            name,
            rf"^\s*(?:\++ )?(?:export |declare -x |ENV )?(?P<variable>{name})="
            r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s;]*);?\s*$",
            {"env": f"{name}=1"},
        )
        for name in (
            "CUDA_LAUNCH_BLOCKING",
            "CUDA_VISIBLE_DEVICES",
            "GLOO_SOCKET_IFNAME",
            "MASTER_PORT",
        )
    ]
    + [
        Pattern(
            machine.LinesLost,
            "[repeated ",
            r"\[repeated (?P<count>\d+)x across cluster\]",
            {
                "Ray": "(RayWorkerWrapper pid=4009) step 3 [repeated 7x across cluster] (Ray deduplicates logs by default.)"
            },
            {"collector": "Ray"},
        ),
        Pattern(
            machine.LinesLost,
            "uppressed ",
            r"(?:^|: )[sS]uppressed (?P<count>\d+) messages from ",
            {
                "journald": "systemd-journald[512]: Suppressed 4312 messages from slurmd.service",
            },
            {"collector": "journald"},
        ),
        Pattern(
            machine.LinesLost,
            "messages lost due to rate-limiting",
            r"(?P<count>\d+) messages lost due to rate-limiting",
            {
                "rsyslog": "rsyslogd: imjournal: 1482 messages lost due to rate-limiting (20000 allowed within 600 seconds)"
            },
            {"collector": "rsyslog"},
        ),
    ]
)

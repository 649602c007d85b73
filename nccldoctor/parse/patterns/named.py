"""Lines in which PyTorch itself names the ranks that did not come: desync report (2.0+), monitored_barrier."""

from nccldoctor.model.events.torch import RanksNamed
from nccldoctor.parse.pattern import Pattern

TEXT = [
    Pattern(
        RanksNamed,
        "failed to pass monitoredBarrier",
        r"Ranks? (?P<named>\d[\d, ]*) failed to pass monitoredBarrier in \d+ ms",
        {
            "2.0+": "[rank0]:[E1130 04:20:11.313575390 ProcessGroupGloo.cpp:2901] [Rank 0]: Rank 1 failed to pass monitoredBarrier in 3000 ms",
            "2.0+ all": "[rank0]:[E1130 04:20:11.313575390 ProcessGroupGloo.cpp:2901] [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 3000 ms",
        },
        {"by": "monitored_barrier"},
    ),
    Pattern(
        RanksNamed,
        "but didn't join collective #",
        r"\[(?P<named>\d[\d, ]*)\] finished collective #\d+, but didn't join collective #(?P<sequence>\d+)",
        {
            "2.0+": "\t     [3, 5] finished collective #41207, but didn't join collective #41208 (count from 1)"
        },
        {"by": "desync report"},
    ),
    Pattern(
        RanksNamed,
        "are the lagging ranks that caused this timeout",
        r"ranks \[(?P<named>\d[\d, ]*)\] are the lagging ranks that caused this timeout",
        {
            "2.0+": "\t - To our best knowledge, ranks [47] are the lagging ranks that caused this timeout. They never joined any collectives"
        },
        {"by": "desync report"},
    ),
]

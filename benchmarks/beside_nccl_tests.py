"""Sets the rows of a probe beside tables of nccl-tests: `beside_nccl_tests.py probe.json TABLE…`."""

import json
import sys
from pathlib import Path

from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import bandwidth


def main(probe_file: str, *tables: str) -> None:
    theirs = {}
    for table in tables:
        data = Path(table).read_bytes()
        for event in bandwidth.read(Source(table, Kind.LOG, len(data)), data).events:
            if isinstance(event, BandwidthRow):
                theirs[event.op, event.size_bytes] = event.bus_gbytes_per_second
    probe = json.loads(Path(probe_file).read_text(encoding="utf-8"))["probe"]
    print(f"{'collective':<16}{'bytes':>12}{'probe':>10}{'nccl-tests':>12}{'ratio':>8}   bus GB/s")
    for row in probe["rows"]:
        key = (row["op"], row["size_bytes"])
        if key not in theirs or row["variant"] or row["group"] != "world":
            continue
        if row["datatype"] != "float32":
            continue
        mine, other = row["bus_gbytes_per_second"], theirs[key]
        print(
            f"{key[0]:<16}{key[1]:>12}{mine:>10.2f}{other:>12.2f}{mine / other if other else 0:>8.3f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

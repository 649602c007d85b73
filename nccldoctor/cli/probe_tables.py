"""The tables that `nccldoctor probe` prints."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nccldoctor.diagnose.hardware import Expectation
    from nccldoctor.model.events.measured import BandwidthRow
    from nccldoctor.model.report import Report


def bandwidths(body: dict[str, Any], report: "Report") -> str:
    """Bus bandwidth of each collective and size on all ranks, with what the hardware should give."""
    from nccldoctor.diagnose.hardware import expectation
    from nccldoctor.model.events.measured import BandwidthRow

    lines = [
        f"{'collective':<28}{'size':>10}{'time us':>12}{'bus GB/s':>10}{'expected':>10}{'':>6}"
    ]
    limits = set()
    for row in [row for job in report.jobs for row in job.events(BandwidthRow)]:
        expect = next((e for job in report.jobs if (e := expectation(job, row))), None)
        lines.append(_row(row, expect))
        limits |= {expect.fabric.name} if expect else set()
    probe = body["probe"]
    lines.append(_under(probe, limits))
    lines += [f"skipped: {s['step']}: {s['because']}" for s in probe["skipped"]]
    lines += [f"{f['kind']}: {f['step']}: {f['text']}" for f in probe["failures"]]
    return "\n".join(lines)


def _row(row: "BandwidthRow", expect: "Expectation | None") -> str:
    from nccldoctor.collect.probe.plan import human

    bus = row.bus_gbytes_per_second
    part = f"{bus / expect.gbytes_per_second:.0%}" if expect else ""
    want = f"{expect.gbytes_per_second:.1f}" if expect else "-"
    extra = [x for x in (row.variant, row.datatype if row.datatype != "float32" else "") if x]
    if row.group != "world":
        extra.append(f"{row.group} {'-'.join(map(str, row.members[:4]))}")
    name = " ".join([row.op, *map(str, extra)])
    wrong = f"  {row.wrong} WRONG" if row.wrong else ""
    return (
        f"{name:<28}{human(row.size_bytes):>10}{row.time_us:>12.1f}{f'{bus:.2f}' if bus else '-':>10}"
        f"{want:>10}{part:>6}{wrong}"
    )


def _under(probe: dict[str, Any], limits: set[str]) -> str:
    """The line below the table: ranks, device, library, and what limits them."""
    if limits:
        what = f"limited by {', '.join(sorted(limits))}"
    elif probe["world"] == 1:
        what = "no bandwidth, for nothing crosses a link"
    else:
        what = "what the links should give: not checked"
    first = probe["ranks"][0] if probe["ranks"] else {}
    library = f"NCCL {first['nccl']}" if first.get("nccl") else "Gloo"
    count = f"{probe['world']} rank{'s' * (probe['world'] != 1)}"
    return f"{count} on {first.get('device', '?')}, {library}; {what}; {probe['seconds']} s"


def levers_tried(levers: list[dict[str, Any]]) -> str:
    """What each setting did, beside the plain run, and which layer that points to."""
    plain = levers[0]
    base = _best(plain)
    lines = [f"{'lever':<30}{'result':<12}{'small us':>10}{'bus GB/s':>10}{'of plain':>10}"]
    for lever in levers:
        rows = lever.get("rows", [])
        small = f"{rows[0]['time_us']:.1f}" if rows else "-"
        part = f"{_best(lever) / base:.0%}" if base and rows else ""
        lines.append(
            f"{lever['name']:<30}{lever['state']:<12}{small:>10}{_best(lever):>10.1f}{part:>10}"
        )
    if plain["state"] != "ok":
        passed = [lever for lever in levers if lever["state"] == "ok" and lever.get("layer")]
        for lever in passed:
            lines.append(
                f"{plain['state']} as it is, passes with {lever['name']} → {lever['layer']}"
            )
        if not passed:
            lines.append(
                f"{plain['state']} as it is, and with every lever → below all of these layers"
            )
    return "\n".join(lines)


def _best(lever: dict[str, Any]) -> float:
    return max((row["bus_gbytes_per_second"] for row in lever.get("rows", [])), default=0.0)

"""`nccldoctor probe`: is the machine sound, how fast is it, and which layer is broken."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.model.report import Report

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int:
    digits, unit = value.lower().rstrip("ib"), 1
    if digits[-1:] in UNITS:
        digits, unit = digits[:-1], UNITS[digits[-1]]
    if not digits.isdigit() or int(digits) < 1:
        raise click.BadParameter(f"{value!r} is no size; say 64M or 1G")
    return int(digits) * unit


@click.command(name="probe")
@click.option("--quick", is_flag=True, help="Every collective once, in at most 20 seconds.")
@click.option(
    "--levers", is_flag=True, help="One NCCL setting at a time: what works, and its cost."
)
@click.option(
    "--beside", metavar="PID|FOLDER", help="Test the ways between the hosts of a hung job."
)
@click.option("--ping", is_flag=True, help="With --beside: also a small collective on this host's GPUs.")  # fmt: skip
@click.option("--nproc", type=click.IntRange(1), help="Ranks on this host.  [its GPUs; 2 on CPU]")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), help="cuda is also AMD's.  [cuda where there are GPUs]")  # fmt: skip
@click.option("--max-size", default="1G", callback=_size, metavar="SIZE", help="Largest message.  [1G]")  # fmt: skip
@click.option("--step-timeout", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds for each step.")  # fmt: skip
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder for all that it leaves behind.")  # fmt: skip
@click.option("--no-nccl-log", is_flag=True, help="Do not switch on NCCL_DEBUG=INFO.")
@click.option("--plant", default="", hidden=True, help="wrong:RANK, slow:RANK:MS or stuck:RANK")
def command(
    quick: bool,
    levers: bool,
    beside: str | None,
    ping: bool,
    nproc: int | None,
    device: str | None,
    max_size: int,
    step_timeout: float,
    run_dir: Path | None,
    no_nccl_log: bool,
    plant: str,
) -> None:
    """Time and check every collective on this machine's GPUs, or with Gloo on its CPU.

    \b
    nccldoctor probe                 all collectives, sizes and types
    nccldoctor probe --quick         at most 20 seconds
    nccldoctor probe --levers        which layer is broken, what each fallback costs
    torchrun --nnodes 2 --nproc-per-node 8 … -m nccldoctor probe
    srun -N2 --ntasks-per-node 8 nccldoctor probe     (with MASTER_ADDR set)
    nccldoctor probe --beside 4711   while a job hangs

    Exit code: 0 sound, 1 a fault was found, 2 it could not be run.
    """
    import contextlib
    import os

    from nccldoctor.collect import bundle
    from nccldoctor.collect.probe import session as probing
    from nccldoctor.collect.probe.levers import try_levers
    from nccldoctor.collect.probe.whole import run

    if beside is not None:
        _beside(beside, ping, step_timeout)
        return
    if not probing.has_torch():
        raise DoctorError("The probe needs PyTorch: pip install torch")
    folder = bundle.make(run_dir, dict(os.environ))
    click.echo(f"nccldoctor: run folder {folder}", err=True)
    wish = probing.Wish(
        folder=folder,
        mode="quick" if quick else "full",
        ranks=nproc,
        device=device,
        largest_bytes=max_size,
        step_seconds=min(step_timeout, 15.0) if quick else step_timeout,
        init_seconds=60.0 if quick else 180.0,
        seconds=8.0 if quick else 600.0,
        total_seconds=15.0 if quick else None,
        debug=not no_nccl_log,
        plant=plant,
    )
    try:
        session = probing.prepare(wish, lambda text: click.echo(text, err=True))
    except DoctorError:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only where nothing is in it
        raise
    if levers:
        session.found = {"mode": "levers", "world": session.world, "device": session.device}
        session.found["levers"] = try_levers(session)
        session.found["ranks"] = session.found["levers"][0]["ranks"]
        body = probing.snapshot(session, session.state)
    else:
        body = run(session)
    if not session.is_first:
        if body["probe"]["failures"]:
            _write(folder / f"probe-rank{session.places[0].rank}.json", body)
        return  # the exit code is rank 0's: a launcher would end it while it writes the report
    _write(folder / "probe.json", body)
    others = probing.wait_for_others(session) if body["probe"].get("failures") else []
    report = _report(folder, others)
    click.echo(_levers_table(body["probe"]["levers"]) if levers else _table(body, report))
    _conclude(report, folder, body)


def _beside(where: str, ping: bool, seconds: float) -> None:
    from nccldoctor.collect.probe.beside import examine

    lines, reachable = examine(where, ping=ping, seconds=seconds)
    for line in lines:
        click.echo(line)
    sys.exit(0 if reachable else 1)


def _write(path: Path, body: dict[str, Any]) -> None:
    import json

    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def _report(folder: Path, others: list[Path]) -> "Report":
    """The same pipeline as `nccldoctor parse`, over what the probe left behind."""
    from nccldoctor.doctor import examine, write_reports

    evidence = [folder / "probe.json", *others, *sorted(folder.glob("nccl_debug_*.log"))]
    evidence += sorted(folder.glob("nccl_topo.xml"))
    evidence += sorted((folder / "ranks").glob("probe-rank*.out"))
    report = examine([str(path) for path in evidence], partial=True)
    write_reports(report, html=folder / "report.html", json=folder / "report.json")
    return report


def _table(body: dict[str, Any], report: "Report") -> str:
    """Bus bandwidth of each collective and size on all ranks, with what the hardware should give."""
    from nccldoctor.collect.probe.plan import human
    from nccldoctor.diagnose.hardware import expectation
    from nccldoctor.model.events.state import BandwidthRow

    rows = [row for job in report.jobs for row in job.events(BandwidthRow)]
    lines = [
        f"{'collective':<28}{'size':>10}{'time us':>12}{'bus GB/s':>10}{'expected':>10}{'':>6}"
    ]
    limits = []
    for row in rows:
        expect = next((e for job in report.jobs if (e := expectation(job, row))), None)
        part = f"{row.bus_gbytes_per_second / expect.gbytes_per_second:.0%}" if expect else ""
        want = f"{expect.gbytes_per_second:.1f}" if expect else "-"
        extra = [x for x in (row.variant, row.datatype if row.datatype != "float32" else "") if x]
        if row.group != "world":
            extra.append(f"{row.group} {'-'.join(map(str, row.members[:4]))}")
        name = " ".join([row.op, *map(str, extra)])
        wrong = f"  {row.wrong} WRONG" if row.wrong else ""
        bus = f"{row.bus_gbytes_per_second:.2f}" if row.bus_gbytes_per_second else "-"
        lines.append(
            f"{name:<28}{human(row.size_bytes):>10}{row.time_us:>12.1f}{bus:>10}"
            f"{want:>10}{part:>6}{wrong}"
        )
        limits += [expect.fabric.name] if expect else []
    probe = body["probe"]
    if limits:
        what = f"limited by {', '.join(sorted(set(limits)))}"
    elif probe["world"] == 1:
        what = "no bandwidth, for nothing crosses a link"
    else:
        what = "what the links should give: not checked"
    ranks = probe["ranks"]
    device = ranks[0]["device"] if ranks else "?"
    version = ranks[0].get("nccl", "") if ranks else ""
    lines.append(
        f"{probe['world']} rank{'s' * (probe['world'] != 1)} on {device}{f', NCCL {version}' if version else ', Gloo'}; {what}; {probe['seconds']} s"
    )
    lines += [f"skipped: {s['step']}: {s['because']}" for s in probe["skipped"]]
    lines += [f"{f['kind']}: {f['step']}: {f['text']}" for f in probe["failures"]]
    return "\n".join(lines)


def _levers_table(levers: list[dict[str, Any]]) -> str:
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


def _conclude(report: "Report", folder: Path, body: dict[str, Any]) -> None:
    verdict = report.verdict
    code = f"{verdict.code}: " if verdict.code else ""
    click.echo(f"nccldoctor: {verdict.status.value}: {code}{verdict.headline}", err=True)
    for step in verdict.next:
        click.echo(f"nccldoctor:   next: {step}", err=True)
    click.echo(f"nccldoctor: report {folder / 'report.html'}", err=True)
    loud = any(finding.severity.value == "error" for finding in report.findings)
    sys.exit(1 if loud or body["probe"].get("failures") else 0)

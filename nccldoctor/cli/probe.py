"""`nccldoctor probe`: is the machine sound, how fast is it, and which layer is broken."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nccldoctor.cli.output import put
from nccldoctor.cli.probe_tables import bandwidths, levers_tried
from nccldoctor.cli.telling import say, say_verdict
from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.collect.probe.session import Session, Wish
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
    import os

    from nccldoctor.collect import bundle
    from nccldoctor.collect.probe import session as probing
    from nccldoctor.collect.probe.whole import run

    if beside is not None:
        _beside(beside, ping, step_timeout)
        return
    if not probing.has_torch():
        raise DoctorError("The probe needs PyTorch: pip install torch")
    folder = bundle.make(run_dir, dict(os.environ))
    say(f"run folder {folder}")
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
    session = _prepared(wish)
    body = _levers(session) if levers else run(session)
    if not session.is_first:
        if body["probe"]["failures"]:
            _write(folder / f"probe-rank{session.places[0].rank}.json", body)
        return  # the exit code is rank 0's: a launcher would end it while it writes the report
    _write(folder / "probe.json", body)
    others = probing.wait_for_others(session) if body["probe"].get("failures") else []
    report = _report(folder, others)
    click.echo(levers_tried(body["probe"]["levers"]) if levers else bandwidths(body, report))
    _conclude(report, folder, body)


def _prepared(wish: "Wish") -> "Session":
    """Who takes part. Where nobody can, the run folder goes again if nothing is in it."""
    from nccldoctor.collect.probe import session as probing

    try:
        return probing.prepare(wish, lambda text: click.echo(text, err=True))
    except DoctorError:
        with contextlib.suppress(OSError):
            wish.folder.rmdir()
        raise


def _levers(session: "Session") -> dict[str, Any]:
    from nccldoctor.collect.probe import session as probing
    from nccldoctor.collect.probe.levers import try_levers

    tried = try_levers(session)
    session.found = {
        "mode": "levers",
        "world": session.world,
        "device": session.device,
        "levers": tried,
        "ranks": tried[0]["ranks"],
    }
    return probing.snapshot(session, session.state)


def _beside(where: str, ping: bool, seconds: float) -> None:
    from nccldoctor.collect.probe.beside import examine

    lines, reachable = examine(where, ping=ping, seconds=seconds)
    for line in lines:
        click.echo(line)
    sys.exit(0 if reachable else 1)


def _write(path: Path, body: dict[str, Any]) -> None:
    import json

    put(json.dumps(body, indent=1) + "\n", str(path))


def _report(folder: Path, others: list[Path]) -> "Report":
    """The same pipeline as `nccldoctor parse`, over what the probe left behind."""
    from nccldoctor.doctor import examine, write_reports

    evidence = [folder / "probe.json", *others, *sorted(folder.glob("nccl_debug_*.log"))]
    evidence += sorted(folder.glob("nccl_topo.xml"))
    evidence += sorted((folder / "ranks").glob("probe-rank*.out"))
    report = examine([str(path) for path in evidence], partial=True)
    write_reports(report, html=folder / "report.html", json=folder / "report.json")
    return report


def _conclude(report: "Report", folder: Path, body: dict[str, Any]) -> None:
    say_verdict(report, folder / "report.html")
    loud = any(finding.severity.value == "error" for finding in report.findings)
    sys.exit(1 if loud or body["probe"].get("failures") else 0)

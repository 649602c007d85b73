"""`nccldoctor watch`: watches a job that is already running, and changes nothing in it."""

import sys
import time
from pathlib import Path

import click

from nccldoctor.cli.after_run import report_on
from nccldoctor.cli.telling import say
from nccldoctor.errors import DoctorError


@click.command(name="watch")
@click.option("--pid", type=int, help="A launcher or a rank on this host.")
@click.option("--ras", metavar="HOST:PORT", help="NCCL's RAS service, also of another host.")
@click.option("--once", is_flag=True, help="Take evidence and report now, without waiting.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder for all evidence.")
@click.option("--every", type=float, default=5.0, show_default=True, help="Seconds between looks.")
@click.option("--hang-timeout", type=float, default=45.0, show_default=True, help="Seconds without progress while some ranks are behind.")  # fmt: skip
@click.option("--symmetric-timeout", type=float, default=90.0, show_default=True, help="Seconds without progress while none is behind.")  # fmt: skip
def command(
    pid: int | None,
    ras: str | None,
    once: bool,
    run_dir: Path | None,
    every: float,
    hang_timeout: float,
    symmetric_timeout: float,
) -> None:
    """Watch a running job from outside; on a hang take evidence, write the report and leave the job alone.

    \b
    nccldoctor watch --pid 4711
    nccldoctor watch --ras gpu-node-04:28028
    nccldoctor watch --pid 4711 --once

    Exit code: 0 the job has ended or moves, 1 it hangs, 2 it cannot be watched.
    """
    import os

    from nccldoctor.collect import attach, bundle, gate, procfs
    from nccldoctor.collect import ras as client
    from nccldoctor.collect.states import note, sentence
    from nccldoctor.collect.watchdog import Limits, State, Watchdog

    if pid is None and ras is None:
        raise DoctorError("say which job: --pid PID on this host, or --ras HOST:PORT")
    if pid is not None and procfs.read(pid) is None:
        raise DoctorError(f"no process {pid} on this host")
    ranks = attach.ranks_below(pid) if pid is not None else []
    address = ras or attach.ras_address(ranks)
    if client.ask(address, "STATUS") is None:
        if pid is None:
            raise DoctorError(
                f"nothing answers at {address}; RAS needs NCCL 2.24 or later and listens on "
                "localhost:28028 of each host unless NCCL_RAS_ADDR says otherwise"
            )
        address = ""
    folder = bundle.make(run_dir, dict(os.environ))
    say(f"run folder {folder}")
    say(
        f"watching {len(ranks) or 'the'} rank{'s' * (len(ranks) != 1)}"
        + (f", RAS at {address}" if address else ", without RAS")
    )
    source = attach.Attached(ranks, address or None) if pid is not None else attach.RasOnly(address)
    watchdog = Watchdog(Limits(hang_timeout, symmetric_timeout), len(ranks) or None)
    while True:
        looks = source.look()
        if not looks and not once:
            say("the job has ended")
            return
        verdict = attach.name_by_stack(watchdog.observe(time.monotonic(), looks), looks)
        if verdict.state.hung or once:
            break
        if verdict.state is not State.RUNNING:
            say(f"{verdict.state.value}: no progress for {verdict.quiet_seconds:.0f} s")
        time.sleep(every)
    why = sentence(verdict) if verdict.state.hung else "asked for"
    say(f"taking evidence ({why})")
    gate.take(folder, ranks, why, intake=None, ras_address=address or None)
    hang = note(verdict, why, ended_job=False) if verdict.state.hung else None
    bundle.snapshot(folder, "watch.json", {"hang": hang})
    report_on(folder)
    sys.exit(1 if verdict.state.hung else 0)

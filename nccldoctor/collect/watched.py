"""One watched run from plan to bundle: the parts of `collect` put together."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nccldoctor.collect import bundle, environment, gate, hostfacts, observe
from nccldoctor.collect.environment import Setting
from nccldoctor.collect.governor import Governor
from nccldoctor.collect.intake import Intake
from nccldoctor.collect.launch import Plan
from nccldoctor.collect.monitor import Monitor
from nccldoctor.collect.session import Outcome, Session, new_run
from nccldoctor.collect.watchdog import Limits, Watchdog

_SETTLE_SECONDS = 10.0
"""Other hosts' watchdogs may still be taking evidence when this one has done."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to watch: limits of the watchdog, what to do on a hang, grace before SIGKILL, most bytes of logs.

    `several` when other hosts or ranks write into the same folder.
    """

    limits: Limits = field(default_factory=Limits)
    on_hang: str = "kill"
    grace_seconds: float = 10.0
    log_limit_bytes: int = 2 << 30
    every_seconds: float = 1.0
    several: bool = False
    echo: bool = True


def run(
    plan: Plan,
    folder: Path,
    wanted: Sequence[Setting],
    environ: Mapping[str, str],
    options: Options,
    *,
    say: Callable[[str], None],
    report: Callable[[], object],
) -> Outcome:
    """Starts the job, watches it to its end and leaves the bundle in `folder`.

    `say` prints a line; `report` is called when a hang was found and the job goes on (`on_hang` report).
    """
    name = new_run()
    ranks = plan.processes or 8
    intake = Intake(
        folder, name, limit_bytes=options.log_limit_bytes // (2 * ranks), echo=options.echo
    )
    intake.start()
    job = environment.instrument(
        environ,
        wanted,
        folder=folder,
        run=name,
        address=intake.address,
        every=options.every_seconds,
    )
    suffix = _suffix(plan, options)

    def take(session: Session, why: str) -> None:
        say(f"taking evidence ({why})")
        taken = gate.take(
            folder,
            observe.living(intake),
            why,
            intake=intake,
            ras_address=job.get("NCCL_RAS_ADDR"),
            suffix=suffix,
        )
        if taken["trouble"]:
            session.outcome.troubles.append(taken["trouble"])

    def written(session: Session) -> None:
        bundle.write_outcome(folder, suffix, plan, wanted, session.outcome)
        report()

    governor = Governor(
        folder,
        "*nccl_*.log",
        options.log_limit_bytes // (2 * ranks),
        options.log_limit_bytes // 2,
        say,
    )
    monitor = Monitor(
        Watchdog(options.limits, plan.processes),
        options.on_hang,
        say,
        written,
        every=options.every_seconds,
        settle_seconds=_SETTLE_SECONDS if options.several else 0.0,
        recovered=lambda: bundle.set_aside(folder),
        govern=governor.look,
    )
    session = Session(
        plan.command, job, intake, name, options.grace_seconds, tick=monitor.tick, gate=take
    )
    outcome = session.supervise()
    outcome.troubles += governor.finish()
    _drop_empty(folder)
    trouble = bundle.write_outcome(folder, suffix, plan, wanted, outcome)
    for line in [*outcome.troubles, *([trouble] if trouble else [])]:
        say(line)
    return outcome


def _suffix(plan: Plan, options: Options) -> str:
    """What keeps the notes of several ranks or hosts apart in one folder."""
    if plan.rank is not None:
        return f"_rank_{plan.rank}"
    return f"_{hostfacts.host_name()}_{os.getpid()}" if options.several else ""


def _drop_empty(folder: Path) -> None:
    """Files that were opened in case of need, pipes, and torchrun's folder of error files."""
    for pattern in ("stack_rank_*.faulthandler.txt", "fr_pipe_*.pipe", "launcher.out"):
        for file in folder.glob(pattern):
            if not file.is_file() or not file.stat().st_size:
                file.unlink(missing_ok=True)

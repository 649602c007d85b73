"""One watched run from plan to bundle: the parts of `collect` put together."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nccldoctor.collect import (
    bundle,
    environment,
    gate,
    gpu_activity,
    hostfacts,
    observe,
    rally_store,
)
from nccldoctor.collect.environment import Setting
from nccldoctor.collect.governor import Governor
from nccldoctor.collect.intake import Intake
from nccldoctor.collect.launch import Plan
from nccldoctor.collect.monitor import Monitor
from nccldoctor.collect.rally import PATIENCE_SECONDS, Alarm, Rally
from nccldoctor.collect.rally_folder import Folder
from nccldoctor.collect.session import Outcome, Session, new_run
from nccldoctor.collect.status_line import StatusLine
from nccldoctor.collect.watchdog import Limits, Watchdog

_SETTLE_SECONDS = 10.0
"""Of other hosts that cannot be reached, the watchdogs may still be taking evidence when this one has done."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to watch: limits of the watchdog, what to do on a hang, grace before SIGKILL, most bytes of logs.

    `several` when other hosts or ranks write into the same folder; `endpoint` is where hosts meet, when that was said.
    """

    limits: Limits = field(default_factory=Limits)
    on_hang: str = "kill"
    grace_seconds: float = 10.0
    log_limit_bytes: int = 2 << 30
    every_seconds: float = 1.0
    several: bool = False
    endpoint: str | None = None
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
    line = StatusLine(sys.stderr)

    def tell(text: str) -> None:
        line.clear()
        say(text)

    ranks = plan.processes or 8
    intake = Intake(
        folder,
        name,
        limit_bytes=options.log_limit_bytes // (2 * ranks),
        echo=options.echo,
        before_echo=line.clear,
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
    kept = [setting.name for setting in wanted if setting.kept is not None]
    yours = f"; yours stay: {', '.join(kept)}" if kept else ""
    tell(
        f"{len(wanted) - len(kept)} variables set for evidence (run.json says which and why){yours}"
    )
    suffix = _suffix(plan, options)

    meeting = _Meeting(
        Rally(hostfacts.host_name(), f"{os.getpid()}-{name}"), plan, options, intake, job
    )
    if options.several:
        meeting.rally.channels.append(Folder(folder, meeting.rally.name))

    def take(session: Session, why: str) -> None:
        tell(f"taking evidence ({why})")
        deadline = time.monotonic() + PATIENCE_SECONDS
        meeting.rally.call(why, session.outcome.hang)
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
        meeting.rally.secure()
        if meeting.rally.others():
            if not meeting.rally.wait(deadline, session.interrupted):
                tell("not all other hosts have said that they have their evidence; going on")
        elif options.several and session.outcome.hang is not None:
            time.sleep(_SETTLE_SECONDS)

    def put_away(why: str) -> None:
        ranks = sorted({s.rank for s in list(intake.ranks.values()) if s.rank is not None})
        bundle.set_aside(folder, why, suffix, ranks)

    def recovered() -> None:
        meeting.rally.reopen()
        put_away("slow")

    def again(attempt: int) -> None:
        meeting.rally.reopen()
        put_away("attempt")

    def written(session: Session) -> None:
        bundle.write_outcome(folder, suffix, plan, wanted, session.outcome)
        report()

    governor = Governor(
        folder,
        "*nccl_*.log",
        options.log_limit_bytes // (2 * ranks),
        options.log_limit_bytes // 2,
        tell,
    )
    monitor = Monitor(
        Watchdog(options.limits, plan.processes),
        options.on_hang,
        tell,
        written,
        every=options.every_seconds,
        heard=meeting.heard,
        gpus=gpu_activity.Sampler().states,
        show=line.show,
        recovered=recovered,
        govern=governor.look,
    )
    session = Session(
        plan.command,
        job,
        intake,
        name,
        options.grace_seconds,
        tick=monitor.tick,
        gate=take,
        again=again,
    )
    try:
        outcome = session.supervise()
    finally:
        meeting.rally.leave()
        line.clear()
    outcome.troubles += governor.finish()
    _drop_empty(folder)
    trouble = bundle.write_outcome(folder, suffix, plan, wanted, outcome)
    for sentence in [*outcome.troubles, *([trouble] if trouble else [])]:
        say(sentence)
    return outcome


@dataclass(slots=True)
class _Meeting:
    """Joins the job's store as soon as it is known where that is, and listens."""

    rally: Rally
    plan: Plan
    options: Options
    intake: Intake
    environ: Mapping[str, str]
    _joined: bool = False

    def heard(self) -> Alarm | None:
        if not self._joined:
            ranks = observe.living(self.intake)
            address = rally_store.where(self.options.endpoint, ranks, self.environ)
            if address is not None:
                self._joined = True
                if self._speaks_for_the_host():
                    python = rally_store.python_of(ranks)
                    self.rally.channels.append(
                        rally_store.Store(address, self.rally.name, python, self.environ)
                    )
        return self.rally.heard()

    def _speaks_for_the_host(self) -> bool:
        """Of the nccldoctors that a launcher has started, one for each rank, the first of each host is enough."""
        names = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
        local = next((self.environ[n] for n in names if n in self.environ), "0")
        return self.plan.rank is None or local == "0"


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

"""One watched run from plan to bundle: the parts of `collect` put together."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nccldoctor.collect import (
    attach,
    bundle,
    environment,
    gate,
    gpu_activity,
    hostfacts,
    observe,
)
from nccldoctor.collect.environment import Setting
from nccldoctor.collect.governor import Governor
from nccldoctor.collect.intake import Intake, RankState
from nccldoctor.collect.launch import Plan
from nccldoctor.collect.meeting import Meeting
from nccldoctor.collect.monitor import Monitor
from nccldoctor.collect.rally import PATIENCE_SECONDS, Rally
from nccldoctor.collect.rally_folder import Folder
from nccldoctor.collect.ras_watch import RasWatch
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
    line, name = StatusLine(sys.stderr), new_run()
    half_of_logs = options.log_limit_bytes // 2
    of_a_rank = half_of_logs // (plan.processes or 8)
    intake = Intake(folder, name, limit_bytes=of_a_rank, echo=options.echo, before_echo=line.clear)
    intake.start()
    job = environment.instrument(
        environ,
        wanted,
        folder=folder,
        run=name,
        address=intake.address,
        every=options.every_seconds,
    )
    rally = Rally(hostfacts.host_name(), f"{os.getpid()}-{name}")
    meeting = Meeting(rally, plan, options.endpoint, intake, job)
    if options.several:
        rally.channels.append(Folder(folder, rally.name))
    watch = _Watch(plan, folder, wanted, options, say, report, line, intake, meeting, job)
    watch.tell(_set(wanted))
    governor = Governor(folder, "*nccl_*.log", of_a_rank, half_of_logs, watch.tell)
    monitor = Monitor(
        Watchdog(options.limits, plan.processes),
        options.on_hang,
        watch.tell,
        watch.written,
        every=options.every_seconds,
        heard=meeting.heard,
        gpus=gpu_activity.Sampler().states,
        show=line.show,
        outside=RasWatch(job["NCCL_RAS_ADDR"]).looks if job.get("NCCL_RAS_ADDR") else list,
        recovered=watch.recovered,
        govern=governor.look,
    )
    session = Session(
        plan.command,
        job,
        intake,
        name,
        options.grace_seconds,
        tick=monitor.tick,
        gate=watch.take,
        again=watch.again,
    )
    try:
        outcome = session.supervise()
    finally:
        rally.leave()
        line.clear()
    outcome.troubles += governor.finish()
    _drop_empty(folder)
    trouble = bundle.write_outcome(folder, watch.suffix, plan, wanted, outcome)
    for sentence in [*outcome.troubles, *([trouble] if trouble else [])]:
        watch.tell(sentence)
    return outcome


@dataclass(slots=True)
class _Watch:
    """What the parts of a run ask for while it is under way."""

    plan: Plan
    folder: Path
    wanted: Sequence[Setting]
    options: Options
    say: Callable[[str], None]
    report: Callable[[], object]
    line: StatusLine
    intake: Intake
    meeting: Meeting
    job: Mapping[str, str]

    @property
    def suffix(self) -> str:
        """What keeps the notes of several ranks or hosts apart in one folder."""
        if self.plan.rank is not None:
            return f"_rank_{self.plan.rank}"
        return f"_{hostfacts.host_name()}_{os.getpid()}" if self.options.several else ""

    def tell(self, text: str) -> None:
        """Prints a line, where the status line was."""
        self.line.clear()
        self.say(text)

    def take(self, session: Session, why: str) -> None:
        """Takes the evidence, and waits until the other hosts have theirs."""
        self.tell(f"taking evidence ({why})")
        rally = self.meeting.rally
        deadline = time.monotonic() + PATIENCE_SECONDS
        rally.call(why, session.outcome.hang)
        taken = gate.take(
            self.folder,
            observe.living(self.intake) or _deaf(session),
            why,
            intake=self.intake,
            ras_address=self.job.get("NCCL_RAS_ADDR"),
            suffix=self.suffix,
        )
        if taken["trouble"]:
            session.outcome.troubles.append(taken["trouble"])
        rally.secure()
        if rally.others():
            if not rally.wait(deadline, session.interrupted):
                self.tell("not all other hosts have said that they have their evidence; going on")
        elif self.options.several and session.outcome.hang is not None:
            time.sleep(_SETTLE_SECONDS)

    def recovered(self) -> None:
        """What looked like a hang goes on: its evidence is that of a slow stretch."""
        self._put_away("slow")

    def again(self, _attempt: int) -> None:
        """The launcher starts the ranks anew."""
        self._put_away("attempt")

    def written(self, session: Session) -> None:
        """Reports on a hang while the job goes on."""
        bundle.write_outcome(self.folder, self.suffix, self.plan, self.wanted, session.outcome)
        self.report()

    def _put_away(self, why: str) -> None:
        self.meeting.rally.reopen()
        ranks = sorted({s.rank for s in list(self.intake.ranks.values()) if s.rank is not None})
        bundle.set_aside(self.folder, why, self.suffix, ranks)


def _set(wanted: Sequence[Setting]) -> str:
    """How many variables are set, and which of the user's stay."""
    kept = [setting.name for setting in wanted if setting.kept is not None]
    yours = f"; yours stay: {', '.join(kept)}" if kept else ""
    return (
        f"{len(wanted) - len(kept)} variables set for evidence (run.json says which and why){yours}"
    )


def _drop_empty(folder: Path) -> None:
    """Files that were opened in case of need, pipes, and torchrun's folder of error files."""
    for pattern in ("stack_rank_*.faulthandler.txt", "fr_pipe_*.pipe", "launcher.out"):
        for file in folder.glob(pattern):
            if not file.is_file() or not file.stat().st_size:
                file.unlink(missing_ok=True)


def _deaf(session: Session) -> list[RankState]:
    """Ranks below the command that send no reports; their stacks and environments can be had all the same."""
    if session.process is None:
        return []
    return [s for s in attach.ranks_below(session.process.pid) if s.pid != session.process.pid]

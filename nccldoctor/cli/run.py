"""`nccldoctor run`: launches a job under watch and reports on it."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nccldoctor.cli.after_run import fall_back, report_on
from nccldoctor.cli.lint_first import sure_findings
from nccldoctor.cli.telling import say
from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.model.report import Report


@click.command(
    name="run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--nproc", type=click.IntRange(1), help="Processes on this host.  [its GPUs]")
@click.option("--nnodes", help="Hosts of the job, as torchrun takes it.")
@click.option("--node-rank", type=int, help="This host's number, as torchrun takes it.")
@click.option("--rdzv-endpoint", help="HOST:PORT where the hosts meet, as torchrun takes it.")
@click.option("--rdzv-id", help="Name of the job among the hosts, as torchrun takes it.")
@click.option("--max-restarts", type=int, help="Restarts, as torchrun takes it.")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Folder for all evidence; hosts may share it.  [nccldoctor-run-TIME]",
)
@click.option("--trace-calls", is_flag=True, help="Log every collective too (big logs).")
@click.option("--grace", type=float, default=10.0, show_default=True, help="Seconds from SIGTERM to SIGKILL.")  # fmt: skip
@click.option(
    "--on-hang",
    type=click.Choice(["kill", "report", "wait"]),
    default="kill",
    show_default=True,
    help="After evidence was taken: kill ends the job (exit 124), report writes the report and lets it go on, wait reports at the end.",
)
@click.option(
    "--hang-timeout",
    type=float,
    default=45.0,
    show_default=True,
    help="Seconds without progress while some ranks are behind.",
)
@click.option(
    "--symmetric-timeout",
    type=float,
    default=90.0,
    show_default=True,
    help="Seconds without progress while none is behind.",
)
@click.option(
    "--init-timeout",
    type=float,
    default=300.0,
    show_default=True,
    help="Seconds for the set-up of process groups.",
)
@click.option(
    "--busy-timeout",
    type=float,
    default=600.0,
    show_default=True,
    help="Seconds without progress while a rank computes, compiles, evaluates or saves.",
)
@click.option(
    "--watch-every",
    type=float,
    default=1.0,
    show_default=True,
    help="Seconds between two looks at the ranks.",
)
@click.option(
    "--log-limit", type=float, default=2.0, show_default=True, help="GiB of logs to keep in all."
)
@click.option(
    "--fallback",
    type=click.Choice(["probe", "job"]),
    help="After a failure try one NCCL setting at a time, with the probe or with the job itself, to name the layer at fault; 0 when the job went through.",
)
@click.option("--print-env", is_flag=True, help="Only print what would be set, and why.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] train.py [ARGS]…")  # fmt: skip
def command(
    nproc: int | None,
    nnodes: str | None,
    node_rank: int | None,
    rdzv_endpoint: str | None,
    rdzv_id: str | None,
    max_restarts: int | None,
    run_dir: Path | None,
    trace_calls: bool,
    grace: float,
    on_hang: str,
    hang_timeout: float,
    symmetric_timeout: float,
    init_timeout: float,
    busy_timeout: float,
    watch_every: float,
    log_limit: float,
    fallback: str | None,
    print_env: bool,
    words: tuple[str, ...],
) -> None:
    """Launch train.py on all GPUs of this host, watch it, and leave a report.

    When the job hangs or a rank fails, evidence is taken before anything is killed, and the report names the rank.

    \b
    One host:
      nccldoctor run train.py --epochs 3
      nccldoctor run --nproc 2 -m package.train
    Around your own launcher, or inside it where ranks exist already:
      nccldoctor run -- torchrun --nproc-per-node 8 train.py
      nccldoctor run -- accelerate launch train.py
      srun --ntasks-per-node=8 nccldoctor run --run-dir runs/$SLURM_JOB_ID train.py
    Several hosts, the same on each but for the number:
      nccldoctor run --nnodes 2 --node-rank 0 --rdzv-endpoint head:29500 train.py
    It fails, and the night is long:
      nccldoctor run --fallback job train.py

    The exit code is the job's own: the first failing rank's, 128+signal for a signal, 124 when a hang was ended.
    Ctrl-C once ends the job within --grace, twice at once.
    """
    import os

    from nccldoctor.collect import bundle, environment, launch, watched
    from nccldoctor.collect.watchdog import Limits

    environ = dict(os.environ)
    if print_env:
        _print_environment(Path(run_dir or "nccldoctor-run"), environ, trace_calls)
        return
    if not words:
        raise DoctorError("nothing to run; give a script: nccldoctor run train.py")
    if launch.is_script(words):
        launch.refuse_absent(words)  # before there is a folder
    elastic = launch.Elastic(nproc, nnodes, node_rank, rdzv_endpoint, rdzv_id, max_restarts)
    elastic = elastic.completed(environ)
    several = launch.on_several_hosts(words, elastic, environ)
    folder = bundle.make(run_dir, environ, shared=several)
    say(f"run folder {folder}")
    for line in sure_findings(words, environ):
        say(line)
    options = watched.Options(
        limits=Limits(hang_timeout, symmetric_timeout, init_timeout, busy_timeout),
        on_hang=on_hang,
        grace_seconds=grace,
        log_limit_bytes=int(log_limit * (1 << 30)),
        every_seconds=watch_every,
        several=several,
        endpoint=elastic.rdzv_endpoint if launch.is_script(words) and several else None,
    )
    torch = environment.torch_version()

    def once(into: Path, variables: dict[str, str], trace: bool) -> "tuple[int, Report | None]":
        """Runs the job into a folder and reports on it; its exit code and the report."""
        if launch.is_script(words):
            plan = launch.plan_script(words, elastic, into, variables)
        else:
            plan = launch.plan_command(words, variables)
        for note in plan.notes:
            say(note)
        began = time.time()
        wanted = environment.settings(into, variables, trace_calls=trace, torch=torch)
        outcome = watched.run(
            plan, into, wanted, variables, options, say=say, report=lambda: report_on(into)
        )
        if plan.rank:  # rank 0 of a job that another launcher has started reports on all
            return outcome.exit_code, None
        if plan.inside:
            bundle.wait_for_ranks(into, variables)
        return outcome.exit_code, report_on(into, *bundle.elsewhere(variables, began))

    if fallback and several:
        say("--fallback works on one host; nothing is tried again here")
    exit_code, report = once(folder, environ, trace_calls)
    if fallback and not several:
        exit_code = fall_back(
            fallback,
            folder,
            environ,
            exit_code,
            report,
            lambda into, env: once(into, env, True)[0],
            processes=elastic.nproc,
        )
    say(f"run folder {folder}")
    sys.exit(exit_code)


def _print_environment(folder: Path, environ: dict[str, str], trace_calls: bool) -> None:
    import shlex

    from nccldoctor.collect import environment

    torch = environment.torch_version()
    for setting in environment.settings(folder, environ, trace_calls=trace_calls, torch=torch):
        if setting.kept is None:
            click.echo(f"{setting.name}={shlex.quote(setting.value)}  # {setting.why}")
        else:
            click.echo(f"# {setting.name}={setting.kept} is yours and stays")

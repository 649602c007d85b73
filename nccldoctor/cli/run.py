"""`nccldoctor run`: launches a job under watch and reports on it."""

import sys
from pathlib import Path

import click

from nccldoctor.errors import DoctorError


@click.command(
    name="run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--nproc", type=click.IntRange(1), help="Processes on this host (default: its GPUs).")
@click.option("--nnodes", help="Hosts of the job, as torchrun takes it.")
@click.option("--node-rank", type=int, help="This host's number, as torchrun takes it.")
@click.option("--rdzv-endpoint", help="HOST:PORT where the hosts meet, as torchrun takes it.")
@click.option("--rdzv-id", help="Name of the job among the hosts, as torchrun takes it.")
@click.option("--max-restarts", type=int, help="Restarts, as torchrun takes it.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder for all evidence.")
@click.option("--trace-calls", is_flag=True, help="Log every collective too (big logs).")
@click.option("--grace", type=float, default=10.0, show_default=True, help="Seconds from SIGTERM to SIGKILL.")  # fmt: skip
@click.option(
    "--on-hang",
    type=click.Choice(["kill", "report", "wait"]),
    default="kill",
    show_default=True,
    help="After evidence was taken: end the job (exit 124), report and go on, or go on.",
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
@click.option("--print-env", is_flag=True, help="Only print what would be set.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] train.py [ARGS]…")  # fmt: skip
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
    print_env: bool,
    words: tuple[str, ...],
) -> None:
    """Launch train.py on all GPUs of this host, watch it, and leave a report.

    \b
    nccldoctor run train.py --epochs 3
    nccldoctor run --nproc 2 train.py
    nccldoctor run -- torchrun --nproc-per-node 8 train.py
    nccldoctor run -- mpirun -np 8 python train.py

    The exit code is the job's own: the first failing rank's, 128+signal for a signal, 124 when a hang was ended.
    """
    import os

    from nccldoctor.collect import bundle, environment, launch, watched
    from nccldoctor.collect.watchdog import Limits

    environ = dict(os.environ)
    if print_env:
        _print_environment(Path(run_dir or "nccldoctor-run"), environ, trace_calls)
        return
    several = nnodes not in (None, "1") or launch.inside_launcher(environ) is not None
    folder = bundle.make(run_dir, environ, shared=several)
    _say(f"run folder {folder}")
    if launch.is_script(words):
        elastic = launch.Elastic(nproc, nnodes, node_rank, rdzv_endpoint, rdzv_id, max_restarts)
        plan = launch.plan_script(words, elastic, folder, environ)
    else:
        plan = launch.plan_command(words, environ)
    for note in plan.notes:
        _say(note)
    wanted = environment.settings(
        folder, environ, trace_calls=trace_calls, torch=environment.torch_version()
    )
    options = watched.Options(
        limits=Limits(hang_timeout, symmetric_timeout, init_timeout, busy_timeout),
        on_hang=on_hang,
        grace_seconds=grace,
        log_limit_bytes=int(log_limit * (1 << 30)),
        every_seconds=watch_every,
    )
    outcome = watched.run(
        plan, folder, wanted, environ, options, say=_say, report=lambda: _report(folder)
    )
    _report(folder)
    _say(f"run folder {folder}")
    sys.exit(outcome.exit_code)


def _say(text: str) -> None:
    click.echo(f"nccldoctor: {text}", err=True)


def _report(folder: Path) -> None:
    """The same pipeline as `nccldoctor parse`, over the run folder; its failure never hides the job's exit code."""
    from nccldoctor.doctor import examine, write_reports

    try:
        report = examine([str(folder)])
        write_reports(
            report, html=folder / "report.html", json=folder / "report.json", markdown=None
        )
    except (OSError, DoctorError) as error:
        _say(f"no report: {error}")
        return
    verdict = report.verdict
    code = f"{verdict.code}: " if verdict.code else ""
    _say(f"{verdict.status.value}: {code}{verdict.headline}")
    for step in verdict.next:
        _say(f"  next: {step}")
    _say(f"report {folder / 'report.html'}")


def _print_environment(folder: Path, environ: dict[str, str], trace_calls: bool) -> None:
    from nccldoctor.collect import environment

    torch = environment.torch_version()
    for setting in environment.settings(folder, environ, trace_calls=trace_calls, torch=torch):
        if setting.kept is None:
            click.echo(f"{setting.name}={setting.value}  # {setting.why}")
        else:
            click.echo(f"# {setting.name}={setting.kept} is yours and stays")

"""`nccldoctor selftest`: injects faults on this machine and checks that each is named."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.collect.selftest import Fault


@click.command(name="selftest")
@click.option("--only", metavar="FAULT,…", default="", help="These faults alone; `--list` names them.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Name the faults and do nothing.")
@click.option("--nproc", type=click.IntRange(2), help="Ranks of each job.  [GPUs; 2 on CPU]")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), help="cuda is also AMD's.  [cuda where there are 2 GPUs]")  # fmt: skip
@click.option("--run-dir", type=click.Path(path_type=Path), help="Keep all evidence here.")
def command(
    only: str, listing: bool, nproc: int | None, device: str | None, run_dir: Path | None
) -> None:
    """Let small jobs go wrong on this machine, and check that the verdict names the rank and the reason.

    The jobs run under `nccldoctor run`: with NCCL where there are two GPUs or more, else with Gloo on the CPU.
    The exit code is 1 when a verdict is wrong.
    """
    import importlib.util

    from nccldoctor.collect import selftest

    if listing:
        for fault in selftest.FAULTS:
            alone = "  (NCCL only)" if fault.nccl_only else ""
            click.echo(f"{fault.mode:12} the last rank: {fault.what}{alone}")
        return
    if importlib.util.find_spec("torch") is None:
        raise DoctorError("the jobs of the self-test need PyTorch: pip install 'nccldoctor[torch]'")
    found, count = selftest.device_here(os.environ)
    device = device or found
    ranks = nproc or (count if device == found else 2)
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [fault.mode for fault in selftest.FAULTS]
    if unknown := [name for name in names if name not in known]:
        raise DoctorError(f"no fault is named {unknown[0]}; there are {', '.join(known)}")
    if run_dir is not None:
        run_dir.mkdir(parents=True, exist_ok=True)
        sys.exit(_run(selftest.chosen(names, device), run_dir.resolve(), device, ranks))
    with tempfile.TemporaryDirectory(prefix="nccldoctor-selftest-") as folder:
        sys.exit(_run(selftest.chosen(names, device), Path(folder), device, ranks))


def _run(faults: "list[Fault]", folder: Path, device: str, ranks: int) -> int:
    from nccldoctor.collect import selftest

    backend = "NCCL" if device == "cuda" else "Gloo"
    click.echo(f"{backend}, {ranks} ranks; rank {ranks - 1} goes wrong\n")
    click.echo(f"{'fault':12}  {'verdict':8}  {'ranks':6}  {'seconds':>7}")
    wrong = 0
    for fault in faults:
        got = selftest.inject(fault, folder / fault.mode, device, ranks)
        wrong += not got.right
        named = ",".join(map(str, got.ranks)) if fault.codes or not got.right else ""
        timed = f"{got.seconds:.1f}" if got.seconds is not None and fault.codes else ""
        click.echo(f"{fault.mode:12}  {got.code:8}  {named:6}  {timed:>7}", nl=got.right)
        if not got.right:
            wanted = " or ".join(fault.codes) or "healthy"
            click.echo(f"  WRONG: {wanted} of rank {ranks - 1} is right; told: {got.headline}")
    click.echo(f"\n{len(faults) - wrong} of {len(faults)} verdicts right")
    return 1 if wrong else 0

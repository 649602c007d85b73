"""`nccldoctor digest`: digests logs where they lie, so that only a small file travels."""

from pathlib import Path

import click


@click.command(name="digest")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("-o", "--output", required=True, metavar="FILE.ncd", help="Where the digest goes.")
@click.option("--jobs", type=click.IntRange(1), help="Processes that read files.  [cores]")
def command(paths: tuple[str, ...], output: str, jobs: int | None) -> None:
    """Digest logs where they lie, to be parsed elsewhere.

    The digest holds everything that `parse` needs but the text of the collective calls, in a small part of the size.

    \b
    srun --ntasks-per-node=1 sh -c 'nccldoctor digest /tmp/nccl_*.log -o shared/$(hostname).ncd'
    nccldoctor parse shared/*.ncd
    """
    from nccldoctor import doctor
    from nccldoctor.cli.progress import progress
    from nccldoctor.parse.portable import dumps
    from nccldoctor.report.atomic import write_bytes

    inputs = doctor.gather(paths)
    with doctor.engine(inputs, jobs) as executor, progress("Digesting") as shown:
        digests = doctor.digest(inputs, executor, shown)
    data = dumps(digests)
    write_bytes(Path(output), data)
    read = sum(d.source.size_bytes for d in digests)
    click.echo(f"{output}: {len(data):,} bytes for {read:,} bytes of {len(digests)} files")

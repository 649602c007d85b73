"""A progress bar on a terminal, for what takes over two seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 2.0


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yields a function to call with (done, of how many); it shows nothing before two seconds or off a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    start = time.monotonic()
    bar = Progress(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(title)
    try:

        def show(done: int, total: int) -> None:
            if time.monotonic() - start > PATIENCE_SECONDS and not bar.live.is_started:
                bar.start()
            bar.update(task, completed=done, total=total)

        yield show
    finally:
        bar.stop()

"""This file waits for the death of the launcher that started it, and then ends what is left of the job.

Run as a script by the launcher with a pipe as its standard input: end of file means that the launcher is gone, however it
ended. Standard library only, so that it starts fast.
"""

import os
import signal
import sys
import time
from pathlib import Path


def main(mark: str, job: int) -> None:
    """Waits for end of file, then kills every process that carries `mark` or belongs to the job's session."""
    while True:
        word = os.read(0, 64)
        if not word:
            break
        if word.startswith(b"done"):
            return
    quiet = 0
    while quiet < 3:  # a process may be about to start another one
        found = _members(mark.encode(), job)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        quiet = 0 if found else quiet + 1
        time.sleep(0.1)


def _members(mark: bytes, session: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            stat = (folder / "stat").read_bytes()
            fields = stat[stat.rfind(b")") + 2 :].split()
            ours = int(fields[3]) == session
            ours = ours or mark in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if ours and fields[0] not in (b"Z", b"X"):
            found.append(int(folder.name))
    return found


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    main(sys.argv[1], int(sys.argv[2]))

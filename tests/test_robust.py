"""Odd machines: killed half-way, full and read-only disks, no home, old locales, python -O, other clocks, logs that grow."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.errors import DoctorError
from nccldoctor.report import to_json
from nccldoctor.report.atomic import write_text

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "sample_logs"
SICK = SAMPLES / "2.28.9-nodes4-skip"
SMALL = SAMPLES / "2.28.9-dup-gpu"


def parse(
    *words: str, python: tuple[str, ...] = (), variables: dict[str, str] | None = None, **kwargs
):
    """`nccldoctor parse` in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "HOME"} | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *python, "-m", "nccldoctor", "parse", *words],
        env=environment | (variables or {}),
        capture_output=True,
        check=False,
        **kwargs,
    )


@pytest.fixture(scope="module")
def wanted() -> bytes:
    """The report that every machine has to give."""
    return to_json(doctor.examine([str(SMALL)])).encode()


@pytest.mark.parametrize(
    ("python", "variables"),
    [
        (("-O",), {}),
        (("-I", "-c", f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from nccldoctor.cli import main; main()"), {}),
        ((), {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
        ((), {"HOME": "/nonexistent", "TZ": "Asia/Tokyo", "LC_ALL": "tr_TR.UTF-8"}),
        ((), {"PYTHONHASHSEED": "7", "COLUMNS": "3", "TERM": "dumb"}),
    ],
    ids=["-O", "-I", "LANG=C", "no home, Tokyo", "hash seed"],
)  # fmt: skip
def test_the_same_bytes_everywhere(
    wanted: bytes, python: tuple[str, ...], variables: dict[str, str], tmp_path: Path
) -> None:
    if "-c" in python:
        words = [sys.executable, *python, "parse", str(SMALL), "--no-html", "--json", "-"]
        done = subprocess.run(words, capture_output=True, check=False, cwd=tmp_path)
    else:
        words = [str(SMALL), "--no-html", "--json", "-"]
        done = parse(*words, python=python, variables=variables, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout == wanted and not list(tmp_path.iterdir())


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    for ends in (b"\n", b"\r\n"):
        folder = tmp_path / str(len(ends)) / "logs"
        folder.mkdir(parents=True)
        for path in SICK.iterdir():
            data = path.read_bytes()
            text = b"\0" not in data and not path.name.startswith("fr_")
            (folder / path.name).write_bytes(data.replace(b"\n", ends) if text else data)
    unix, windows = (json.loads(to_json(doctor.examine([str(tmp_path / n)]))) for n in ("1", "2"))
    assert windows["verdict"] == unix["verdict"]
    assert [f["code"] for f in windows["findings"]] == [f["code"] for f in unix["findings"]]
    assert windows["coverage"] == {**unix["coverage"], "unknown": windows["coverage"]["unknown"]}


def test_a_clock_that_goes_back_changes_no_verdict(tmp_path: Path) -> None:
    """A host's clock is set back by an hour in the middle of the job."""
    for path in SICK.iterdir():
        shutil.copy(path, tmp_path)
    for path in tmp_path.glob("nccl_debug_gpu-node-02*.log"):
        lines = path.read_text().splitlines(keepends=True)
        stamps = ["[2026-11-30 04:00:00] "] * (len(lines) // 2)
        stamps += ["[2026-11-30 03:00:01] "] * (len(lines) - len(stamps))
        path.write_text("".join(map("".join, zip(stamps, lines, strict=True))))
    before, after = doctor.examine([str(SICK)]), doctor.examine([str(tmp_path)])
    assert (after.verdict.code, after.verdict.ranks) == (before.verdict.code, before.verdict.ranks)


def test_killed_at_any_moment_leaves_the_old_report_or_the_new(tmp_path: Path) -> None:
    html, data = tmp_path / "report.html", tmp_path / "report.json"
    html.write_text("the old one")
    data.write_text("the old one")
    words = ["parse", str(SICK), "--quiet", "--html", str(html), "--json", str(data)]
    for moment in (0.1, 0.3, 0.5, 0.7, 0.9, 1.2):
        for stop in (signal.SIGKILL, signal.SIGINT):
            child = subprocess.Popen(
                [sys.executable, "-m", "nccldoctor", *words],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(moment)
            child.send_signal(stop)
            child.wait()
            page, text = html.read_text(), data.read_text()
            assert page == "the old one" or page.rstrip().endswith("</html>")
            assert text == "the old one" or json.loads(text)["verdict"]["code"] == "HANG01"
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert left == {"report.html", "report.json"}


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_disk_that_is_full_costs_the_report_and_not_the_verdict(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("the old one")
    done = parse(str(SMALL), "--html", str(page), preexec_fn=_small_files)
    assert done.returncode == 2
    assert b"INIT02" in done.stdout and b"Cannot write" in done.stderr, done.stderr
    assert b"Traceback" not in done.stderr
    assert page.read_text() == "the old one" and [p.name for p in tmp_path.iterdir()] == [page.name]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    for place in ("/proc/report.html", f"{tmp_path}", "/dev/full"):
        with pytest.raises(DoctorError, match="Cannot write"):
            write_text(Path(place), "x" * 100_000)
    assert Path("/dev/full").is_char_device()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DoctorError, match="Cannot write"):
        write_text(tmp_path / "report.html", "x")
    tmp_path.chmod(0o700)


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join(10)
    assert got == ["through"] and pipe.is_fifo()
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_logs_that_grow_while_they_are_read_are_no_fault(tmp_path: Path) -> None:
    """A healthy job writes on, in pieces cut anywhere, while its folder is read again and again."""
    sources = sorted((SAMPLES / "2.28.9-nodes4-healthy").glob("*.log"))
    assert sources
    ended = threading.Event()

    def write_on() -> None:
        texts = {path.name: path.read_bytes() for path in sources}
        longest = max(map(len, texts.values()))
        for at in range(0, longest, 1511):
            for name, text in texts.items():
                with (tmp_path / name).open("ab") as file:
                    file.write(text[at : at + 1511])
            time.sleep(0.01)
        ended.set()

    writer = threading.Thread(target=write_on)
    writer.start()
    while not list(tmp_path.iterdir()):
        time.sleep(0.01)
    rounds = 0
    try:
        while True:
            last = ended.is_set()
            report = doctor.examine([str(tmp_path)])
            loud = [f for f in report.findings if f.severity.value == "error"]
            assert not loud, [(f.code, f.title) for f in loud]
            rounds += 1
            if last:
                break
    finally:
        writer.join()
    assert rounds > 1
    assert report.verdict == doctor.examine([str(path) for path in sources]).verdict


def _peak_megabytes(*words: str) -> float:
    """The most memory that a process of its own takes for this."""
    program = (
        "import resource, sys; from nccldoctor import doctor; doctor.examine(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    short, long = tmp_path / "short", tmp_path / "long"
    head = b"gpu-1:71:71 [0] NCCL INFO "
    short.write_bytes(head + b"x" * (4 << 20))
    with long.open("wb") as file:
        file.write(head)
        for _ in range(100):
            file.write(b"x" * (1 << 20))
    assert _peak_megabytes(str(long)) < _peak_megabytes(str(short)) + 50


def test_nothing_is_sent_anywhere(tmp_path: Path) -> None:
    """Python's own audit of what is connected to, and of names that are asked for."""
    program = """
import sys
def refuse(event, _):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.send")):
        print(event, file=sys.stderr)
        raise SystemExit(99)
sys.addaudithook(refuse)
from nccldoctor.cli import main
main()
"""
    words = ["parse", str(SMALL), "--html", "r.html", "--json", "r.json", "--markdown", "r.md"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and not done.stderr
    assert len(list(tmp_path.iterdir())) == 3

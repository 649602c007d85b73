"""lnav's format file: its own rules, its patterns over real logs, and lnav itself where it is installed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nccldoctor.parse.header import HEADER

ROOT = Path(__file__).parent.parent
FILE = ROOT / "share" / "lnav" / "nccl.json"
FORMAT = json.loads(FILE.read_text(encoding="utf-8"))["nccl_log"]
REGEXES = {
    name: re.compile(each["pattern"].replace("(?<", "(?P<"))
    for name, each in FORMAT["regex"].items()
}
TIME = "2026-11-30T04:00:00.123"


def found(line: str) -> re.Match[str] | None:
    return next((match for regex in REGEXES.values() if (match := regex.match(line))), None)


def level(word: str) -> str:
    return next(name for name, regex in FORMAT["level"].items() if re.search(regex, word))


def test_the_file_has_the_shape_that_lnav_wants() -> None:
    assert re.fullmatch(r"\w+", "nccl_log")
    assert {"title", "description", "regex", "sample", "level"} <= set(FORMAT)
    kinds = {"string", "integer", "float", "boolean", "json", "quoted"}
    assert all(value["kind"] in kinds for value in FORMAT["value"].values())
    for name, regex in REGEXES.items():
        groups = set(regex.groupindex)
        assert {"timestamp", "level", "body"} <= groups, name
        assert groups - {"timestamp"} <= set(FORMAT["value"]), name


def test_every_sample_is_matched_and_every_pattern_has_one() -> None:
    used = set()
    for sample in FORMAT["sample"]:
        match = found(sample["line"])
        assert match, sample["line"]
        assert level(match["level"]) == sample["level"]
        used.add(next(name for name, regex in REGEXES.items() if regex is match.re))
    assert used == set(REGEXES)


def test_real_records_are_read_as_nccldoctor_reads_them() -> None:
    """With the time before them that `lnav -t` puts there."""
    read = 0
    for path in sorted((ROOT / "sample_logs").glob("*/*nccl*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            header = HEADER.match(line)
            if header is None or header["level"] is None:
                continue
            match = found(line) if header["time"] else found(f"{TIME}  {line}")
            assert match, f"{path.name}: {line[:120]}"
            assert match["host"] == header["host"] and match["pid"] == header["pid"]
            assert match["level"] == header["level"] and match["place"] == header["place"]
            read += 1
    assert read > 5000


@pytest.mark.skipif(not shutil.which("lnav"), reason="lnav is not installed")
def test_lnav_takes_it(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    subprocess.run(
        ["lnav", "-i", str(FILE)], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    checked = subprocess.run(
        ["lnav", "-W", "-n", "-c", ";SELECT 'fine'"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fine" in checked.stdout and "nccl" not in checked.stderr, checked.stderr

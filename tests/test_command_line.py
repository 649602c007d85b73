"""What goes wrong on the command line is told in one sentence, with the way out, and by the exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nccldoctor.cli import main

GOOD = "gpu-1:71:71 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"


def _run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.log"
    file.write_text(GOOD)
    return file


@pytest.mark.parametrize(
    ("name", "content"), [("zero.log", b""), ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(9) * 99)]
)
def test_nothing_to_read_is_no_health(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    result = _run("parse", str(tmp_path), "--no-html")
    assert result.exit_code == 2
    assert "Nothing to read" in result.output and name in result.output


def test_missing_file_beside_a_good_one_is_named(good: Path) -> None:
    result = _run("parse", str(good), "nope.log", "--no-html")
    assert result.exit_code == 1
    assert "Not read: nope.log (there is no such file)" in result.output


def test_code_that_no_diagnosis_has_is_refused(good: Path) -> None:
    assert _run("parse", str(good), "--no-html", "--select", "INIT").exit_code == 1
    result = _run("parse", str(good), "--no-html", "--select", "INIT99")
    assert result.exit_code == 2 and "INIT99" in result.output


def test_verdict_is_told_where_the_report_cannot_be_written(good: Path) -> None:
    result = _run("parse", str(good), "--html", str(good / "r.html"))
    assert result.exit_code == 2
    assert "INIT02" in result.output and "Cannot write" in result.output


def test_mistyped_command_and_bare_file_are_understood(good: Path) -> None:
    assert "Did you mean parse?" in _run("prase", "x").output
    assert f"nccldoctor parse {good}" in _run(str(good)).output


def test_terminal_without_unicode(good: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nccldoctor", "parse", str(good), "--no-html"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        check=False,
    )
    assert done.returncode == 1
    assert b"INIT02" in done.stdout and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [("env", "--json"), ("lint", "--json"), ("lint", "--sarif"), ("topo", "--json")]
)
def test_every_command_says_what_it_cannot_write(
    good: Path, tmp_path: Path, words: tuple[str, str]
) -> None:
    matrix = tmp_path / "topo.txt"
    matrix.write_text("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n")
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    given = {"env": [], "lint": [str(script)], "topo": [str(matrix)]}[words[0]]
    result = _run(*words, str(good / "out"), *given)
    assert result.exit_code == 2
    assert "Cannot write" in result.output and "name another place" in result.output


def test_every_output_names_what_was_not_read(good: Path, tmp_path: Path) -> None:
    page, ticket = tmp_path / "r.html", tmp_path / "r.md"
    _run("parse", str(good), "gone.log", "--html", str(page), "--markdown", str(ticket))
    for file in (page, ticket):
        assert "Not read: gone.log (there is no such file)" in file.read_text("utf-8")


def test_help_loads_little() -> None:
    """What --help takes is click's own time; the commands, and all that they need, are not loaded for it."""
    program = (
        "import sys; from nccldoctor.cli import main; main(['--help'], standalone_mode=False);"
        "print(sorted(n for n in sys.modules if n.startswith('nccldoctor') or n in"
        " ('rich', 'jinja2', 'pyparsing', 'zstandard', 'pathlib', 'multiprocessing')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.rstrip().endswith("['nccldoctor', 'nccldoctor.cli', 'nccldoctor.errors']")

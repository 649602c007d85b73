"""What TAB offers, asked as the shells ask, and once through a real bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def ask(shell: str, *words: str) -> list[str]:
    """The answer to TAB at the end of these words."""
    if shell == "fish":
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": words[-1]}
    else:
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return call({"_NCCLDOCTOR_COMPLETE": f"{shell}_complete", **asked}).splitlines()


def call(variables: dict[str, str]) -> str:
    program = "from nccldoctor.cli import main; main(prog_name='nccldoctor')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "words, wanted",
    [
        (["se"], "plain,selftest"),
        (["parse", "--fail-on", "w"], "plain,warning"),
        (["explain", "HANG0"], "plain,HANG01"),
        (["explain", "CODE0"], "plain,CODE04"),
        (["parse", "--select", "HANG01,NET"], "plain,HANG01,NET02"),
        (["lint", "--ignore", "CODE1"], "plain,CODE12"),
        (["env", "--explain", "NCCL_IB_HC"], "plain,NCCL_IB_HCA"),
        (["selftest", "--only", "se"], "plain,segv"),
        (["parse", "/tm"], "file,/tm"),
        (["parse", "--json", "re"], "file,re"),
        (["diff", "good.json", "ba"], "file,ba"),
        (["run", "tr"], "file,tr"),
        (["run", "--run-dir", "ru"], "file,ru"),
    ],
    ids=" ".join,
)
def test_tab(words: list[str], wanted: str) -> None:
    assert wanted in ask("bash", "nccldoctor", *words)


def test_other_shells_see_what_a_code_means() -> None:
    assert ask("zsh", "nccldoctor", "explain", "HANG01") == ["plain", "HANG01", "rank-behind"]
    assert ask("fish", "nccldoctor explain", "HANG01") == ["plain,HANG01\trank-behind"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_read_the_script(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(call({"_NCCLDOCTOR_COMPLETE": f"{shell}_source"}))
    assert "_NCCLDOCTOR_COMPLETE" in script.read_text()
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(script)], check=True)


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_a_real_bash(tmp_path: Path) -> None:
    program = tmp_path / "nccldoctor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nccldoctor "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(_NCCLDOCTOR_COMPLETE=bash_source nccldoctor)"
        COMP_WORDS=(nccldoctor explain HANG01) COMP_CWORD=2
        _nccldoctor_completion nccldoctor
        echo "${COMPREPLY[@]}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["HANG01"], done.stderr

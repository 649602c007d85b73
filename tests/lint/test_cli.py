"""The lint command: outputs, exit codes, and mending as a diff first."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from nccldoctor.cli import main

BAD = """\
import os
import torch
import torch.distributed as dist

def main():
    os.environ['MASTER_ADDR'] = 'localhost'
    os.environ["MASTER_PORT"] = "29500"
    dist.init_process_group(backend="rccl")
    torch.cuda.set_device(dist.get_rank())
    if dist.get_rank() == 0:
        dist.barrier()  # é
    train()

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(BAD, "utf-8")
    return path


def _run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["lint", *words])
    return result.exit_code, result.output


def test_text_says_place_code_and_remedy(script: Path) -> None:
    code, output = _run("train.py")
    assert code == 1
    assert "train.py:8:37: CODE01 unknown-backend (error)" in output
    assert "train.py:11:9: CODE04 collective-under-rank-guard (error)" in output
    assert "-> " in output and "findings in 1 file" in output


def test_json_has_the_shape_of_a_report(script: Path) -> None:
    _, output = _run("--json", "-", "train.py")
    document = json.loads(output)
    assert document["schema"] == 1 and document["files"] == 1
    for finding in document["findings"]:
        assert {"code", "severity", "confidence", "title", "remedy", "evidence"} <= set(finding)
        assert finding["evidence"][0]["file"] == "train.py"


def test_sarif(script: Path) -> None:
    _run("--sarif", "out.sarif", "train.py")
    document = json.loads((script.parent / "out.sarif").read_text("utf-8"))
    (run,) = document["runs"]
    assert document["version"] == "2.1.0" and len(run["tool"]["driver"]["rules"]) == 28
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "train.py" and place["region"]["startLine"] > 0


def test_github_annotations(script: Path) -> None:
    _, output = _run("--github", "train.py")
    assert (
        "::error file=train.py,line=11,col=9,title=CODE04 collective-under-rank-guard::" in output
    )
    assert all(line.startswith("::") for line in output.splitlines())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--fail-on", "never"), 0),
        (("--select", "CODE15"), 0),
        (("--select", "CODE15", "--fail-on", "note"), 1),
        (("--select", "CODE13", "--fail-on", "warning"), 1),
        (("--select", "CODE99"), 2),
        (("--write",), 2),
        (("nowhere.py",), 2),
    ],
)
def test_exit_codes(script: Path, words: tuple[str, ...], code: int) -> None:
    assert _run("train.py", *words)[0] == code


def test_less_sure_findings_are_counted_and_can_be_shown(script: Path) -> None:
    script.write_text(
        "import torch.nn as nn, torch.distributed as dist\ndist.init_process_group('gloo')\na = nn.DataParallel(m)\nb = DistributedDataParallel(m)\n"
    )
    assert "1 less sure one not shown" in _run("train.py")[1]
    assert "CODE26" in _run("--confidence", "low", "train.py")[1]


def test_fix_shows_a_diff_that_applies_and_write_does_the_same(script: Path) -> None:
    before = script.read_text("utf-8")
    _, output = _run("--fix", "train.py")
    assert script.read_text("utf-8") == before
    diff = output[output.index("--- a/") : output.index("# 1 file(s)")]
    (script.parent / "a.diff").write_text(diff, "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=script.parent, check=True)
    subprocess.run(["git", "apply", "a.diff"], cwd=script.parent, check=True)
    patched = script.read_text("utf-8")
    script.write_text(before, "utf-8")
    _run("--fix", "--write", "train.py")
    assert script.read_text("utf-8") == patched
    assert 'os.environ.setdefault("MASTER_ADDR", "localhost")' in patched
    assert 'backend="nccl"' in patched
    assert 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))' in patched
    assert "    train()\n    dist.destroy_process_group()\n" in patched
    left = {f["code"] for f in json.loads(_run("--json", "-", "train.py")[1])["findings"]}
    assert left == {"CODE04"}


def test_explain_knows_the_rules() -> None:
    result = CliRunner().invoke(main, ["explain", "CODE04"])
    assert result.exit_code == 0 and "collective-under-rank-guard" in result.output
    assert "CODE28" in CliRunner().invoke(main, ["explain", "graph"]).output

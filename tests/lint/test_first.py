"""What `nccldoctor run` says of a script before it launches it."""

from pathlib import Path

from nccldoctor.cli.lint_first import sure_findings

BAD = "import torch.distributed as dist\n" + "".join(
    f"def f{n}():\n    if dist.get_rank() == 0:\n        dist.barrier()\n" for n in range(5)
)


def _script(folder: Path, text: str) -> str:
    path = folder / "train.py"
    path.write_text(text, "utf-8")
    return str(path)


def test_three_lines_and_how_to_see_the_rest(tmp_path: Path) -> None:
    script = _script(tmp_path, BAD)
    lines = sure_findings(["torchrun", "--nproc-per-node", "2", script, "--epochs", "3"], {})
    assert len(lines) == 4
    assert all("CODE04" in line and "\n" not in line for line in lines[:3])
    assert "2 more" in lines[3]


def test_silence(tmp_path: Path) -> None:
    script = _script(
        tmp_path, "import torch.distributed as dist\ndist.init_process_group('nccl')\n"
    )
    assert sure_findings([script], {}) == []
    assert sure_findings(["-m", "package.train"], {}) == []
    assert sure_findings([_script(tmp_path, BAD)], {"RANK": "3"}) == []


def test_what_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    assert sure_findings([_script(tmp_path, "import torch.distributed\nif (")], {}) == []
    (tmp_path / "pyproject.toml").write_text("[tool.nccldoctor]\nselct = []\n")
    (line,) = sure_findings([_script(tmp_path, BAD)], {})
    assert "could not read" in line

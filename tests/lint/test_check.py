"""Files, folders, notebooks, imports across files, comments that silence, and the project's configuration."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nccldoctor.errors import DoctorError
from nccldoctor.lint import check, check_paths
from nccldoctor.lint.config import read_config
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.rules import rules
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence

BAD = "import torch.distributed as dist\nif dist.get_rank() == 0:\n    dist.barrier()\n"


def _write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def test_folder_file_and_what_is_skipped(tmp_path: Path) -> None:
    _write(
        tmp_path, {"a.py": BAD, "b/c.py": BAD, ".venv/d.py": BAD, "build/e.py": BAD, "f.txt": BAD}
    )
    outcome = check([tmp_path])
    assert outcome.files == 2
    assert [c.finding.evidence[0].number for c in outcome.checked] == [3, 3]
    assert [f.code for f in check_paths([tmp_path / "a.py"])] == ["CODE04"]


def test_a_rule_that_raises_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(script: Script) -> Iterator[Hit]:
        raise KeyError("x")

    broken = tuple(replace(r, check=fail) if r.code == "CODE05" else r for r in rules())
    monkeypatch.setattr("nccldoctor.lint.engine.rules", lambda: broken)
    outcome = check([_write(tmp_path, {"a.py": BAD})])
    assert [c.finding.code for c in outcome.checked] == ["CODE04"]
    assert "CODE05: internal error" in outcome.faults[0][1]


def test_missing_path_says_so(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match="no such file"):
        check([tmp_path / "nowhere.py"])


@pytest.mark.parametrize(
    "text", ["import torch.distributed as dist\nif (", "distributed\x00", "distributed = 0777"]
)
def test_what_is_no_python_is_told_and_costs_nothing_else(tmp_path: Path, text: str) -> None:
    _write(tmp_path, {"a.py": text, "b.py": BAD})
    outcome = check([tmp_path])
    assert len(outcome.checked) == 1
    assert [Path(path).name for path, _ in outcome.unreadable] == ["a.py"]


def test_other_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + BAD.encode())
    (tmp_path / "b.py").write_bytes(b"\xef\xbb\xbf" + BAD.encode())
    assert len(check([tmp_path]).checked) == 2


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("# nccldoctor: ignore", True),
        ("# nccldoctor: ignore[CODE04]", True),
        ("# nccldoctor: ignore[CODE01, code04]", True),
        ("# nccldoctor:ignore[collective-under-rank-guard]", True),
        ("# nccldoctor: ignore[CODE05]", False),
        ("# noqa", False),
    ],
)
def test_comments_silence_a_line(tmp_path: Path, comment: str, silenced: bool) -> None:
    _write(tmp_path, {"a.py": BAD.replace("barrier()", f"barrier()  {comment}")})
    assert bool(check_paths([tmp_path])) is not silenced


def test_a_comment_silences_a_file(tmp_path: Path) -> None:
    _write(tmp_path, {"a.py": f"# nccldoctor: ignore-file[CODE04]\n{BAD}"})
    assert check_paths([tmp_path]) == []


def test_a_call_is_followed_into_another_file(tmp_path: Path) -> None:
    helper = (
        "import torch.distributed as dist\ndef total(x):\n    dist.all_reduce(x)\n    return x\n"
    )
    for name, statement in {
        "pkg/relative.py": "from .metrics import total",
        "pkg/absolute.py": "from pkg.metrics import total",
    }.items():
        script = f"{statement}\nimport torch.distributed as dist\ndef log(x):\n    if dist.get_rank() == 0:\n        print(total(x))\n"
        _write(tmp_path, {"pkg/__init__.py": "", "pkg/metrics.py": helper, name: script})
        (finding,) = check_paths([tmp_path / name])
        assert finding.code == "CODE04" and "in `total`" in finding.title


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    _write(tmp_path, {"a.py": f"{BAD}open({str(mark)!r}, 'w')\n"})
    assert check_paths([tmp_path])
    assert not mark.exists()


def test_notebook_cells_and_lines(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# distributed"]},
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "!pip list\n", "import torch.distributed as dist"],
        },
        {"cell_type": "code", "source": ["%%bash\n", "echo hello"]},
        {"cell_type": "code", "source": ["this is no Python ("]},
        {"cell_type": "code", "source": "if dist.get_rank() == 0:\n    dist.barrier()"},
    ]
    _write(tmp_path, {"a.ipynb": json.dumps({"cells": cells, "nbformat": 4})})
    (checked,) = check([tmp_path]).checked
    line = checked.finding.evidence[0]
    assert line.file.endswith("a.ipynb#cell-5") and line.number == 2 and checked.cell == 5


def test_no_notebook(tmp_path: Path) -> None:
    _write(tmp_path, {"a.ipynb": '["distributed"]', "b.ipynb": '{"cells": 3, "x": "distributed"}'})
    assert len(check([tmp_path]).unreadable) == 2


def test_configuration(tmp_path: Path) -> None:
    table = '[tool.nccldoctor]\nignore = ["CODE15"]\nexclude = ["old/*"]\nconfidence = "high"\n'
    table += '[tool.nccldoctor.per-file-ignores]\n"tests/*" = ["CODE04"]\n'
    files = {"pyproject.toml": table, "a.py": BAD, "old/a.py": BAD, "tests/a.py": BAD}
    _write(tmp_path, files)
    outcome = check([tmp_path])
    assert [Path(c.finding.evidence[0].file).parent for c in outcome.checked] == [tmp_path]
    assert read_config(tmp_path / "tests").confidence is Confidence.HIGH


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("selct = []", "has no 'selct'"),
        ("ignore = 3", "list of strings"),
        ('confidence = "sure"', "confidence is"),
        ('fail-on = "all"', "fail-on is"),
        ("= 3", "no valid TOML"),
    ],
)
def test_wrong_configuration_says_what_is_wrong(tmp_path: Path, table: str, said: str) -> None:
    _write(tmp_path, {"pyproject.toml": f"[tool.nccldoctor]\n{table}\n"})
    with pytest.raises(DoctorError, match=said):
        read_config(tmp_path)

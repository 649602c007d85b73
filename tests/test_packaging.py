"""The wheel and the sdist: what they contain, and that the wheel works where there is nothing else."""

import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = (
    "nccldoctor/py.typed",
    "nccldoctor/report/schema.json",
    "nccldoctor/knowledge/variables.json",
    "nccldoctor/lint/torch_names.json",
    "nccldoctor/collect/selftest/worker.py",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("build") is None, reason="the package `build` is not installed"
    ),
]


def call(*words: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the sdist and, built from that, the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT), cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


def test_the_wheel_has_all_that_it_needs(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    templates = {f"nccldoctor/templates/{path.relative_to(ROOT / 'templates')}" for path in (ROOT / "templates").rglob("*") if path.is_file()}  # fmt: skip
    assert templates
    assert {*SHIPPED, *templates} <= names
    shared = {n.partition(".data/data/")[2] for n in names if ".data/data/" in n}
    assert {"share/man/man1/nccldoctor.1", "share/lnav/nccl.json"} <= shared
    package = [n for n in names if ".data/" not in n and ".dist-info/" not in n]
    assert not [n for n in package if n.split("/")[0] != "nccldoctor"]
    assert not [n for n in names if "__pycache__" in n]


def test_the_sdist_has_the_tests_and_samples(built):
    (found,) = built.glob("*.tar.gz")
    with tarfile.open(found) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/test_packaging.py", "sample_logs/TRUTH.json")  # fmt: skip
    assert set(wanted) <= names


@pytest.mark.skipif(importlib.util.find_spec("twine") is None, reason="twine is not installed")
def test_the_index_would_show_the_description(built):
    files = [str(path) for path in sorted(built.iterdir())]
    assert call(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=built).count("PASSED") == 2  # fmt: skip


def lowest() -> list[str]:
    """The lowest version that pyproject.toml allows of each dependency, as constraints."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = text.partition("dependencies = [")[2].partition("\n]")[0]
    remote = text.partition("\nremote = [")[2].partition("]\n")[0]
    bounds = re.findall(r'"([\w-]+)(?:\[\w+\])?>=([\d.]+)', needed + remote)
    assert len(bounds) > 7
    return [f"{name}=={version}" for name, version in bounds]


@pytest.mark.parametrize("which", ["newest", "lowest"])
def test_the_wheel_works_alone(which, wheel, tmp_path):
    """Needs a package index, for the dependencies; the same report with the newest of them as with the lowest."""
    call(sys.executable, "-m", "venv", "fresh", cwd=tmp_path)
    python = tmp_path / "fresh" / "bin" / "python"
    (tmp_path / "lowest.txt").write_text("\n".join(lowest() if which == "lowest" else []) + "\n")
    install = (str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", "lowest.txt")  # fmt: skip
    done = subprocess.run([*install, f"{wheel}[remote]"], cwd=tmp_path, capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode and "from versions: none" in done.stderr:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr[-2000:]
    tool = str(python.with_name("nccldoctor"))
    assert "Commands" in call(tool, "--help", cwd=tmp_path)
    sample = str(ROOT / "sample_logs" / "2.28.9-dup-gpu")
    report = call(tool, "parse", sample, "--json", "-", cwd=tmp_path, code=1)
    assert json.loads(report)["verdict"]["code"] == "INIT02"
    here = call(sys.executable, "-m", "nccldoctor", "parse", sample, "--json", "-", cwd=ROOT, code=1)  # fmt: skip
    assert report == here
    call(tool, "parse", sample, "--html", "report.html", cwd=tmp_path, code=1)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert "read by" in call(tool, "env", "--explain", "NCCL_IB_HCA", cwd=tmp_path).lower()
    call(tool, "lint", str(ROOT / "examples"), "--fail-on", "never", cwd=tmp_path)

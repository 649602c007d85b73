"""The docs say what the program says, and the site made of them stands on its own."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent
LOADS = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


def test_generated_files_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    spec = spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    wanted = generate.files()
    written = {
        path.relative_to(ROOT).as_posix()
        for folder in generate.FOLDERS
        for path in (ROOT / folder).iterdir()
    }
    assert written <= set(wanted), "run `make docs` and commit"
    for path, text in wanted.items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: run `make docs`, commit"


def test_links_lead_somewhere() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
    ]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:"):
                assert (page.parent / target).exists(), (
                    f"{page.relative_to(ROOT)} links to {target}"
                )


def test_every_threat_has_its_test() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ") and "threat" not in row]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named and all((ROOT / name).exists() for name in named), row


class _Page(HTMLParser):
    """The names, links and loads of one page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.names.add(value)
            if (tag, name) in LOADS and value:
                self.loads.add(value)
            if (tag, name) == ("a", "href") and value:
                self.links.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, _Page]:
    """Path → page, of the site as `make docs` builds it; strict, so that a dead link or anchor fails."""
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {path: _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}


def test_the_site_has_every_command_and_diagnosis(site: dict[Path, _Page]) -> None:
    names = {path.name for path in site}
    wanted = {p.with_suffix(".html").name for p in (ROOT / "docs").rglob("*.md")} - {"README.html"}
    assert wanted <= names
    assert {"contributing.html", "changelog.html", "numbers.html", "numbers-gpu.html"} <= names


def test_the_site_loads_nothing_from_elsewhere(site: dict[Path, _Page]) -> None:
    for path, page in site.items():
        assert not [load for load in page.loads if urlsplit(load).netloc], path.name


def test_the_sites_links_lead_somewhere(site: dict[Path, _Page]) -> None:
    for path, page in site.items():
        if path.name == "404.html":
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert parts.scheme in ("http", "https", "mailto"), link
                assert re.fullmatch(r"[a-z0-9.-]+\.[a-z]{2,}", parts.netloc), link
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name} links to {link}"
            if parts.fragment and target in site and parts.fragment != "__skip":
                assert unquote(parts.fragment) in site[target].names, f"{path.name}: {link}"

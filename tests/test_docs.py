"""The docs say what the program says."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_diagnoses_pages_are_current() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    pages = generate.pages()
    written = {
        p.name: p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "diagnoses").glob("*.md")
    }
    assert written == pages, "run `make docs` and commit"


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

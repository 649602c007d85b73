"""Hooks of the site (mkdocs.yml): takes pages in that lie outside docs/, and lists commands and diagnoses in the menu."""

import re
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "numbers.md",
    "benchmarks/gpu.md": "numbers-gpu.md",
}
GROUPS = {
    "BACKEND": "Backends and versions",
    "BUF": "Buffers and memory",
    "COLL": "Mismatched calls",
    "CRASH": "Crashes",
    "ENV": "Variables",
    "HANG": "Hangs",
    "HW": "Hardware",
    "INIT": "Set-up",
    "LOG": "Logs",
    "NET": "Networks",
    "PERF": "Speed",
    "TOPO": "Topology",
}


def on_config(config: Any) -> Any:
    """Fills the entries of the menu that name a folder."""
    config.nav = [_filled(entry) for entry in config.nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=relinked(text, source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri not in OUTSIDE.values():
        markdown = relinked(markdown, f"docs/{page.file.src_uri}")
    return re.sub(r"(?m)^\|.*`.*$", _bare_pipes, markdown)


def _bare_pipes(row: re.Match[str]) -> str:
    """A row of a table whose code has its pipes bare: GitHub wants them escaped there, Python-Markdown does not."""
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0])


def relinked(markdown: str, source: str) -> str:
    """With links to pages that lie outside docs/, or from there into it, as the site has them."""

    def link(match: re.Match[str]) -> str:
        path, anchor = match.groups()
        if "://" in path:
            return match[0]
        target = (ROOT / source).parent.joinpath(path).resolve().relative_to(ROOT)
        page = OUTSIDE.get(target.as_posix())
        if page is None and source in OUTSIDE and target.parts[0] == "docs":
            page = Path(*target.parts[1:]).as_posix()
        if page is None:
            return match[0]
        return f"]({'../' * (source.count('/') - 1) if source.startswith('docs/') else ''}{page}{anchor or ''})"

    return re.sub(r"\]\(([^)#\s]+)(#[^)]*)?\)", link, markdown)


def _filled(entry: dict[str, Any]) -> dict[str, Any]:
    ((title, value),) = entry.items()
    if value == "commands":
        names = sorted(p.stem for p in (ROOT / "docs/commands").glob("[a-z]*.md"))
        return {title: ["commands/README.md", *({n: f"commands/{n}.md"} for n in names)]}
    if value == "diagnoses":
        return {title: ["diagnoses/README.md", *_diagnoses()]}
    return entry


def _diagnoses() -> list[dict[str, Any]]:
    codes = sorted(p.stem for p in (ROOT / "docs/diagnoses").glob("*[0-9].md"))
    groups = groupby(codes, lambda code: code.rstrip("0123456789"))
    return [
        {GROUPS.get(group, group): [{code: f"diagnoses/{code}.md"} for code in members]}
        for group, members in groups
    ]

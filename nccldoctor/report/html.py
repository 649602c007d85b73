"""Report → one HTML file that needs nothing else: no network, no script, no screen wider than a phone."""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from nccldoctor import __version__
from nccldoctor.model.report import Report
from nccldoctor.report.evidence import inline
from nccldoctor.report.steps import step
from nccldoctor.report.view import view
from nccldoctor.report.words import (
    clock,
    encodable,
    exact,
    harmless,
    listed,
    plural,
    ranks_said,
    size,
    source,
    spans,
)


def render(report: Report) -> str:
    """The whole file. Every word of a log is escaped; a content policy forbids all outside loads."""
    return render_page("report.html.j2", view(report))


def render_page(template: str, names: Mapping[str, Any]) -> str:
    """A page of this template, which knows these names."""
    page = _environment().get_template(template)
    return encodable(page.render(names, version=__version__))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(place) for place in _places()]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(
        spans=spans,
        exact=exact,
        said=ranks_said,
        listed=listed,
        size=size,
        plural=plural,
        harmless=harmless,
        step=step,
        clock=clock,
        source=source,
        inline=inline,
    )
    environment.globals.update(asset=_asset, policy=_policy)
    return environment


def _shown(value: Any) -> Any:
    """What a template prints: a stranger's text without terminal codes and direction marks."""
    return harmless(value) if type(value) is str else value


def _places() -> list[Path]:
    """Where the templates lie in an installed package, and in a checkout."""
    here = Path(__file__).resolve().parents[1]
    return [here / "templates", here.parent / "templates"]


@cache
def _asset(name: str) -> Markup:
    """A style sheet or script of ours, to stand inside the page as it is."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0])


@cache
def _policy() -> str:
    """Nothing may be loaded; only our own style sheet and script, named by their digests, may act."""
    style, script = (_digest(name) for name in ("report.css", "report.js"))
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(name: str) -> str:
    digest = hashlib.sha256(str(_asset(name)).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

"""`nccldoctor diff`: what changed between two runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nccldoctor.cli.gravity import fail_on_option, fails
from nccldoctor.cli.output import put, refuse_two
from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.report.pseudonyms import Pseudonyms


@click.command(name="diff")
@click.argument("before", metavar="GOOD")
@click.argument("after", metavar="BAD")
@click.option("--html", metavar="FILE", help="Write the comparison as HTML.")
@click.option("--json", "as_json", metavar="FILE", help="Write JSON; - for standard output.")
@click.option("--markdown", metavar="FILE", help="Write Markdown; - for standard output.")
@fail_on_option("Exit with 1 when BAD has a finding at or above this that GOOD has not.")
@click.option("--redact", is_flag=True, help="Replace hosts, addresses, paths and users.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(
    before: str,
    after: str,
    html: str | None,
    as_json: str | None,
    markdown: str | None,
    fail_on: str,
    redact: bool,
    quiet: bool,
) -> None:
    """Compare two runs: what is different in BAD.

    GOOD and BAD are folders or files with evidence, run folders of `nccldoctor run`, or JSON reports.

    \b
    nccldoctor diff run-monday/ run-tuesday/
    nccldoctor diff good.json bad.json --markdown -
    """
    from nccldoctor.report import difference
    from nccldoctor.report.compare import compare
    from nccldoctor.report.pseudonyms import Pseudonyms

    refuse_two(as_json, markdown, "--json and --markdown")
    pseudonyms = Pseudonyms() if redact else None
    comparison = compare(
        _report(before, pseudonyms), _report(after, pseudonyms), _names(before, after, redact)
    )
    for place, text in (
        (html, difference.render),
        (as_json, difference.dumps),
        (markdown, difference.markdown),
    ):
        if place:
            put(text(comparison), place)
    if not quiet and "-" not in (as_json, markdown):
        difference.show(comparison)
    if fails((f["severity"] for f in comparison.new_findings), fail_on):
        sys.exit(1)


def _names(before: str, after: str, redact: bool) -> tuple[str, str]:
    if redact or before == after:
        return ("GOOD", "BAD")
    short = Path(before).name, Path(after).name
    return short if all(short) and short[0] != short[1] else (before, after)


def _report(place: str, pseudonyms: Pseudonyms | None) -> dict[str, Any]:
    """The JSON report at this place, or one made from the evidence there; redacted ones are made anew."""
    from nccldoctor import doctor
    from nccldoctor.report.json import SCHEMA, to_dict
    from nccldoctor.report.redact import redact

    path = Path(place)
    ready = path / "report.json" if path.is_dir() else path
    if pseudonyms is None and ready.suffix == ".json" and ready.is_file():
        try:
            data = json.loads(ready.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            data = None
        if isinstance(data, dict) and data.get("tool", {}).get("name") == "nccldoctor":
            if data.get("schema") != SCHEMA:
                raise DoctorError(
                    f"{ready} is of schema {data.get('schema')}; parse the evidence anew"
                )
            if "verdict" in data and "jobs" in data:
                return data
    made = doctor.examine([place])
    return to_dict(redact(made, pseudonyms) if pseudonyms is not None else made)

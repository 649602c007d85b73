"""Every recorded run can be written in every form, redacted too."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nccldoctor import doctor
from nccldoctor.model.report import Report
from nccldoctor.report.html import render as to_html
from nccldoctor.report.json import dumps
from nccldoctor.report.markdown import LIMIT_BYTES
from nccldoctor.report.markdown import render as to_markdown
from nccldoctor.report.redact import redact_with_key

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
FOLDERS = sorted(p for p in SAMPLES.iterdir() if p.is_dir()) if SAMPLES.is_dir() else []


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(resources.files("nccldoctor.report").joinpath("schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_every_form(folder: Path, validator: Any) -> None:
    report = doctor.examine([str(folder)])
    _check(report, validator)
    hidden, key = redact_with_key(report)
    _check(hidden, validator)
    text = dumps(hidden).lower()
    hosts = {h["name"] for facts in report.facts for h in facts["hosts"]} - {"localhost"}
    apart = r"(?<![a-z0-9]){}(?![a-z0-9])"  # a host called vm is no part of nvmlDev
    assert [h for h in hosts if re.search(apart.format(re.escape(h.lower())), text)] == []
    addresses = {a for p, a in key.items() if p.startswith("address-")}
    shown = set(re.findall(r"[0-9A-Fa-f.:]+", text))
    assert addresses.isdisjoint(shown)
    assert str(folder).lower() not in text


def _check(report: Report, validator: Any) -> None:
    validator.validate(json.loads(dumps(report)))
    assert len(to_html(report).encode()) < 300_000
    assert len(to_markdown(report).encode()) < LIMIT_BYTES

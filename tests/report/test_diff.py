"""`nccldoctor diff` tells what changed, from reports or from evidence, and nothing between equal runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nccldoctor.cli import main
from nccldoctor.report.compare import ABSENT, compare
from nccldoctor.report.difference import dumps, headline, markdown, render
from nccldoctor.report.json import to_dict


@pytest.fixture
def pair(make_report: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same job before and after: another NCCL, one variable more, half the links, a finding gone and one new."""
    good, bad = to_dict(make_report()), json.loads(json.dumps(to_dict(make_report())))
    good["findings"] = [f for f in good["findings"] if f["code"] == "ENV03"]
    good["verdict"] = {**good["verdict"], "status": "degraded", "code": "ENV03"}
    bad["findings"] = [f for f in bad["findings"] if f["code"] != "ENV03"]
    job = bad["jobs"][0]
    job["versions"]["nccl"] = {"2.27.3": list(range(8))}
    job["environment"].append(
        {
            "name": "NCCL_P2P_DISABLE",
            "values": {"1": [0, 1]},
            "missing": [2, 3, 4, 5, 6, 7],
            "differs": True,
        }
    )
    job["topologies"][0]["links"].pop()
    job["communicators"][0]["channels"] = 1
    job["bandwidth"][0]["points"] = [[1 << 20, 12.5, None]]
    return good, bad


def _changes(good: dict[str, Any], bad: dict[str, Any]) -> dict[str, tuple[str, str]]:
    sections = compare(good, bad).sections
    return {c.what: (c.before, c.after) for s in sections for c in s.changes}


def test_changes_are_named(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    changes = _changes(*pair)
    assert changes["nccl"] == ("2.28.9", "2.27.3")
    assert changes["NCCL_P2P_DISABLE"] == (ABSENT, "1; not set on 6 ranks 2-7")
    assert changes["communicator of 8 ranks, no. 1: channels"] == ("4", "1")
    assert changes["status"] == ("degraded", "hung")
    assert changes["HANG01 new"][0] == ABSENT
    assert changes["ENV03 gone"][1] == ABSENT
    assert changes["all_reduce (nccl-tests), 1 MiB"] == ("255.4 GB/s", "12.5 GB/s (-95%)")
    assert any(what.endswith("NVL 370.8 GB/s") for what in changes)
    assert "cuda" not in changes


def test_bandwidth_is_compared_at_one_size_and_beyond_noise(make_report: Any) -> None:
    quick, full = to_dict(make_report()), to_dict(make_report())
    points = full["jobs"][0]["bandwidth"][0]["points"]
    quick["jobs"][0]["bandwidth"][0]["points"] = [[s, v * 1.02, d] for s, v, d in points[:4]]
    assert compare(quick, full).sections == ()


def test_equal_runs_have_no_difference(make_report: Any) -> None:
    report = to_dict(make_report())
    comparison = compare(report, report)
    assert comparison.sections == ()
    assert headline(comparison) == "Nothing that the reports tell has changed"


def test_every_form(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    comparison = compare(*pair, ("good<b>", "bad"))
    data = json.loads(dumps(comparison))
    assert [s["title"] for s in data["sections"]][:2] == ["Verdict", "Findings"]
    page = render(comparison)
    assert "good&lt;b&gt;" in page
    assert "2.27.3" in page
    assert "| nccl | 2.28.9 | 2.27.3 |" in markdown(comparison)


def test_command_reads_reports(pair: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path) -> None:
    for name, data in zip(("good", "bad"), pair, strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    good, bad = str(tmp_path / "good.json"), str(tmp_path / "bad.json")
    html = tmp_path / "diff.html"
    result = CliRunner().invoke(main, ["diff", good, bad, "--html", str(html)])
    assert result.exit_code == 1, result.output
    assert "2.27.3" in result.output
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert CliRunner().invoke(main, ["diff", good, good]).exit_code == 0
    assert CliRunner().invoke(main, ["diff", good, bad, "--fail-on", "never"]).exit_code == 0


def test_command_reads_evidence(tmp_path: Path) -> None:
    for name, version in (("a", "2.28.9"), ("b", "2.26.2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_text(
            f"node-1:10:10 [0] NCCL INFO NCCL version {version}+cuda13.0\n"
            "node-1:10:10 [0] NCCL INFO NCCL_DEBUG set by environment to INFO.\n",
            encoding="utf-8",
        )
    result = CliRunner().invoke(
        main, ["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--markdown", "-"]
    )
    assert "| nccl | 2.28.9 | 2.26.2 |" in result.output


def test_redacted_runs_share_their_pseudonyms(tmp_path: Path) -> None:
    for name, hosts in (("a", ("node-1", "node-2")), ("b", ("node-2", "node-3"))):
        (tmp_path / name).mkdir()
        for host in hosts:
            (tmp_path / name / f"{host}.log").write_text(
                f"{host}:10:10 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
                f"{host}:10:10 [0] NCCL INFO NCCL_HOSTID set by environment to {host}.\n",
                encoding="utf-8",
            )
    arguments = ["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--redact", "--json", "-"]
    result = CliRunner().invoke(main, arguments)
    changes = [c for s in json.loads(result.output)["sections"] for c in s["changes"]]
    (hosts_change,) = [c for c in changes if c["what"] == "NCCL_HOSTID"]
    assert "node-" not in result.output.replace("host-", "")
    assert "host-2" in hosts_change["before"]
    assert "host-2" in hosts_change["after"]
    assert "host-3" in hosts_change["after"]


def test_command_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["diff", str(tmp_path / "none"), str(tmp_path / "no")])
    assert result.exit_code == 2
    assert "none" in result.output

"""Nothing of the original names remains in any redacted output, and equal names stay equal."""

from dataclasses import replace
from typing import Any

import pytest

from nccldoctor.model.finding import Confidence, Finding, Role, Severity
from nccldoctor.model.report import Report
from nccldoctor.model.source import Kind, Line, Source
from nccldoctor.report.html import render as to_html
from nccldoctor.report.json import dumps
from nccldoctor.report.markdown import render as to_markdown
from nccldoctor.report.redact import redact, redact_with_key

SECRETS = [
    "gpu-node-04",
    "alice",
    "acme",
    "10.20.30.40",
    "fe80::1234:5678",
    "02:42:ac:11:00:02",
    "trainer-7f9c",
    "llm-secret",
    "corp.example.com",
    "submarine",
    "node77",
    "rack3-b",
    "kern-9",
    "elastic-5",
]
LINES = [
    "gpu-node-04:33:34 [0] NCCL INFO Bootstrap : Using ib0:10.20.30.40<0>",
    "gpu-node-04:33:34 [0] misc/socket.cc:52 NCCL WARN socketProgress: Connection closed by remote peer "
    "gpu-node-04-ib0.corp.example.com<42424>",
    'File "/home/alice/acme/train.py", line 33, in main',
    "[pod/trainer-7f9c/llm-secret] Traceback at /mnt/acme/submarine.py:7",
    "NET/IB : fe80::1234:5678 02:42:ac:11:00:02 ssh alice@gpu-node-04",
    "SLURM_JOB_NAME=llm-secret NCCL_IB_HCA=mlx5_0 retry 7 of 12, error 110, size 33554432",
    "NET/Socket : peer node77<4242> failed",
    "[c10d] The client socket has failed to connect to (rack3-b, 29500).",
    "Nov 30 04:00:00 kern-9 kernel: NVRM: Xid (PCI:0000:c1:00): 79",
    "  host      : elastic-5",
    "GPU-NODE-04 in capitals; mounted ~/acme/submarine/x and 127.0.0.1:29500",
]


@pytest.fixture
def report(make_report: Any) -> Report:
    base = make_report()
    finding = Finding(
        "NET04",
        "peer-unreachable",
        Severity.ERROR,
        Confidence.HIGH,
        Role.INDEPENDENT,
        "Rank 7 on gpu-node-04 cannot reach 10.20.30.40 (see acme/submarine.log)",
        "The peer `gpu-node-04` did not answer.",
        ("ssh alice@gpu-node-04 ip route get 10.20.30.40",),
        (7,),
        ("gpu-node-04",),
        tuple(Line("acme/submarine.log", n, text) for n, text in enumerate(LINES, 1)),
    )
    return replace(
        base,
        findings=(*base.findings, finding),
        inputs=(*base.inputs, Source("acme/submarine.log", Kind.LOG, 10, 7, "torn at gpu-node-04")),
    )


@pytest.mark.parametrize("write", [dumps, to_html, to_markdown])
def test_no_secret_remains(report: Report, write: Any) -> None:
    before = write(report).lower()
    after = write(redact(report)).lower()
    assert all(secret in before for secret in SECRETS)
    assert [secret for secret in SECRETS if secret in after] == []


def test_equal_stays_equal_and_numbers_stay(report: Report) -> None:
    hidden, key = redact_with_key(report)
    by_original = {original: pseudonym for pseudonym, original in key.items()}
    host = by_original["gpu-node-04"]
    assert hidden.verdict.hosts == (host,)
    assert host in hidden.verdict.headline
    text = "\n".join(line.text for line in hidden.findings[-1].evidence)
    assert f"{host}:33:34 [0]" in text
    assert "error 110, size 33554432" in text
    assert "misc/socket.cc:52" in text
    assert "mlx5_0" in text
    assert "127.0.0.1" in text
    assert "PCI:0000:c1:00): 79" in text
    assert by_original["10.20.30.40"] in hidden.findings[-1].title
    assert hidden.findings[-1].evidence[0].file == hidden.inputs[-1].path


def test_redacting_twice_gives_the_same(report: Report) -> None:
    assert dumps(redact(report)) == dumps(redact(report))

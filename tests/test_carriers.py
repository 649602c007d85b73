"""Recorded faults in everything that logs are carried in: the verdict is that of the plain log."""

import gzip
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from nccldoctor.doctor import examine
from nccldoctor.evidence.wrapping import wrapping
from nccldoctor.model.finding import Severity
from nccldoctor.model.report import Report

SAMPLES = Path(__file__).parents[1] / "sample_logs"
NOW = "2026-11-30T04:00:00.123456789Z"
BAR = "Epoch 1:  45%|####5     | 45/100 [00:01<00:01, 40.0it/s]"

Style = Callable[[int, str], str]


def record(**fields: object) -> str:
    return json.dumps(fields)


LINES: dict[str, Style] = {
    "Loki": lambda r, t: record(
        line=t, timestamp="1764475200000000000", labels={"pod": f"job-{r}"}
    ),
    "CloudWatch's event": lambda r, t: record(
        timestamp=1764475200000, message=t + "\n", eventId="36"
    ),
    "Datadog": lambda r, t: record(id="A1", attributes={"host": f"m-{r}", "message": t}),
    "Fluent Bit": lambda r, t: record(date=1.5, log=t, kubernetes={"pod_name": f"job-{r}"}),
    "Fluentd": lambda _, t: (
        f"2026-11-30 04:00:00 +0000 kube.train: {record(log=t, stream='stderr')}"
    ),
    "Google Cloud": lambda _, t: record(
        insertId="x", textPayload=t, severity="INFO", timestamp=NOW
    ),
    "Google Cloud, payload": lambda _, t: record(jsonPayload={"message": t}, timestamp=NOW),
    "Elastic": lambda _, t: record(_index="logs", _source={"@timestamp": NOW, "message": t}),
    "Docker's file": lambda _, t: record(log=t + "\n", stream="stderr", time=NOW),
    "journalctl -o json": lambda r, t: record(_HOSTNAME="m-0", _PID=str(100 + r), MESSAGE=t),
    "logcli": lambda r, t: f'{NOW} {{app="train", pod="job-{r}"}} {t}',
    "syslog, RFC 5424": lambda r, t: f"<14>1 {NOW} m-0 train {100 + r} - - {t}",
    "syslog, RFC 3164": lambda r, t: f"<14>Nov 30 04:00:00 m-0 train[{100 + r}]: {t}",
    "syslog, ISO time": lambda r, t: f"2026-11-30T04:00:00.123456+00:00 m-0 train[{100 + r}]: {t}",
    "journalctl": lambda r, t: f"Nov 30 04:00:00 m-0 conmon[{100 + r}]: {t}",
    "kubectl": lambda r, t: f"[pod/job-{r}/x] {t}",
    "compose": lambda _, t: f"trainer  | {t}",
    "compose 1": lambda r, t: f"trainer_{r}     | {t}",
    "compose in colour": lambda r, t: f"\x1b[36mtrainer-{r}  |\x1b[0m {t}",
    "swarm": lambda r, t: f"train_worker.{r + 1}.x8k2j5p0qw1@m-0    | {t}",
    "Ray": lambda r, t: f"\x1b[36m(RayTrainWorker pid={4000 + r}, ip=192.0.2.1)\x1b[0m {t}",
    "vLLM": lambda r, t: f"(EngineCore_DP0 pid=1) (Worker_TP{r} pid={4000 + r}) {t}",
    "aws logs tail": lambda r, t: f"2026-11-30T04:00:00.123000+00:00 train/job-{r}/abcdef {t}",
    "GitHub Actions": lambda _, t: f"2026-11-30T04:00:00.1234567Z {t}",
    "a clock alone": lambda _, t: f"04:00:00.123 {t}",
    "srun -l": lambda r, t: f"{r:3d}: {t}",
    "Open MPI": lambda r, t: f"[1,{r}]<stderr>:{t}",
    "Open MPI with times": lambda r, t: f"Mon Nov 30 04:00:00 2026[1,{r}]<stdout>:{t}",
    "Open MPI 5": lambda r, t: f"[job-1@1,{r}]<stdout>: {t}",
    "SageMaker": lambda r, t: f"[1,mpirank:{r},algo-1]<stdout>:{t}",
    "Hydra": lambda r, t: f"[{r}] {t}",
    "PyTorch's excepthook": lambda r, t: f"[rank{r}]: {t}",
    "torchrun": lambda r, t: f"[default{r}]:{t}",
    "pdsh": lambda _, t: f"node-0: {t}",
    "Python's logging": lambda _, t: f"2026-11-30 04:00:00,123 - train - INFO - {t}",
    "colour": lambda _, t: f"\x1b[33m{t}\x1b[0m",
    "Windows": lambda _, t: t + "\r",
    "a progress bar": lambda _, t: f"{BAR}\r{t}",
    "a bar without an end": lambda _, t: BAR + t if re.match(r"\[rank|\S+:\d+:\d+ ", t) else t,
    "quoted": lambda _, t: f"> {t}",
    "indented": lambda _, t: f"    {t}",
    "a table": lambda _, t: f'"{NOW}","{t.replace(chr(34), chr(34) * 2)}"',
    "a web page": lambda _, t: t.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    "grep": lambda r, t: f"logs/rank{r}.log:17:{t}",
}
FILES: dict[str, Callable[[str], bytes]] = {
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "UTF-16, packed": lambda text: gzip.compress(text.encode("utf-16")),
    "UTF-8 with a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "packed": lambda text: gzip.compress(text.encode()),
    "JSON lines, packed": lambda text: gzip.compress(
        "".join(record(message=line) + "\n" for line in text.splitlines()).encode()
    ),
}
RUNS = ("2.28.9-dup-gpu", "2.28.9-algo-typo", "2.28.9-bad-ifname")
_HEADS = {"a table": "@timestamp,@message\n"}


def carried(run: str, style: Style) -> str:
    """All files of a run, one after another."""
    lines = []
    for path in sorted((SAMPLES / run).glob("*.*")):
        rank = re.fullmatch(r"rank(\d+)\.out|nccl_debug_.*?(\d+)\.log", path.name)
        if rank is not None:
            number = int(rank[1]) if rank[1] else int(rank[2]) % 2
            lines += [style(number, line) for line in path.read_text().splitlines()]
    return "".join(line + "\n" for line in lines)


def told(report: Report) -> tuple[object, ...]:
    loud = sorted({f.code for f in report.findings if f.severity is not Severity.NOTE})
    verdict = report.verdict
    return verdict.code, verdict.status, verdict.ranks, verdict.hosts, loud


@cache
def plain(run: str, folder: Path) -> tuple[object, ...]:
    path = folder / f"{run}.log"
    path.write_text(carried(run, lambda _, text: text))
    return told(examine([str(path)]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plain")


@pytest.mark.parametrize("style", LINES)
def test_the_verdict_is_that_of_the_plain_log(style: str, folder: Path, tmp_path: Path) -> None:
    for run in RUNS:
        path = tmp_path / "job.log"
        path.write_bytes((_HEADS.get(style, "") + carried(run, LINES[style])).encode())
        report = examine([str(path)])
        assert told(report) == plain(run, folder)
        assert report.coverage.ratio >= 0.98


@pytest.mark.parametrize("packing", FILES)
def test_so_it_is_for_whole_files(packing: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(FILES[packing](carried(RUNS[0], lambda _, text: text)))
    assert told(examine([str(path)])) == plain(RUNS[0], folder)


def test_calls_in_json_lines_are_aligned_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    run = "2.28.9-wrong-op"
    path = tmp_path / "job.jsonl"
    path.write_text(carried(run, lambda _, text: record(message=text)))
    report = examine([str(path)])
    assert report.verdict.code == "COLL01"
    lines = path.read_text().splitlines()
    for line in report.findings[0].evidence:
        assert json.loads(lines[line.number - 1])["message"].startswith(line.text[:40])


def test_several_lines_in_one_record_are_all_read(tmp_path: Path) -> None:
    text = carried("2.28.9-bad-ifname", lambda _, text: text)
    path = tmp_path / "job.json"
    path.write_text(record(message="started") + "\n" + record(message=text) + "\n")
    assert examine([str(path)]).verdict.code == "NET06"


def test_a_record_cut_for_its_length_is_put_together(tmp_path: Path) -> None:
    text = carried("2.28.9-dup-gpu", lambda _, text: text)
    path = tmp_path / "c.log"
    parts = []
    for line in text.splitlines():
        parts.append(record(log=line[:60], stream="stderr", time=NOW) if len(line) > 60 else None)
        parts.append(
            record(log=(line[60:] if len(line) > 60 else line) + "\n", stream="stderr", time=NOW)
        )
    path.write_text("".join(part + "\n" for part in parts if part))
    report = examine([str(path)])
    assert report.verdict.code == "INIT02"
    assert report.coverage.ratio == 1


@pytest.mark.parametrize(
    "head",
    [
        b"gpu-1:71:71 [0] NCCL INFO cudaDriverVersion 13000\n",
        b'{"nccl_version": {"version": 22809}, "message": "x"}\n',
        b'{"loss": 0.25}\n',
        b"loss, step, note\n1, 2, 3\n",
        b"\0" * 600 + b"gpu-1:71:71 [0] NCCL INFO x\n",
        b"\x80\x04\x95",
        b"",
    ],
)
def test_what_is_not_wrapped_is_left_alone(head: bytes) -> None:
    assert wrapping(head) is None

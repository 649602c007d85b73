"""The environment audit: who wins, what is wrong in a value and where, other processes, versions, explanations."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nccldoctor.audit import audit
from nccldoctor.cli import main
from nccldoctor.grammars.environment import fault, grammars
from nccldoctor.knowledge.environment import lookup


@pytest.mark.parametrize(
    ("name", "value", "column", "said"),
    [
        ("NCCL_ALGO", "Ring,Tre", 5, "did you mean Tree"),
        ("NCCL_ALGO", "allreduce:ring;broadcst:tree", 15, "did you mean Broadcast"),
        ("NCCL_ALGO", "Ring, Tree", 5, "no blanks"),
        ("NCCL_ALGO", "Ring,", 5, "missing"),
        ("NCCL_PROTO", "LL256", 0, "did you mean LL"),
        ("NCCL_DEBUG_SUBSYS", "INIT,COL", 5, "did you mean COLL"),
        ("NCCL_SOCKET_IFNAME", "eth0, eth1", 5, "no blanks"),
        ("NCCL_SOCKET_IFNAME", "eth0,", 5, "missing"),
        ("NCCL_IB_HCA", "mlx5_0:x", 7, "a port number is expected"),
        ("NCCL_IB_HCA", "mlx5_0:1,,mlx5_1", 9, "the name of a device is expected"),
    ],
)
def test_fault_and_its_place(name: str, value: str, column: int, said: str) -> None:
    found = fault(name, value)
    assert found is not None and said in found.message
    assert found.column == column


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_ALGO", "^NVLS,NVLSTree"),
        ("NCCL_ALGO", "allreduce:tree,ring;broadcast:ring"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_DEBUG_SUBSYS", "^COLL,p2p"),
        ("NCCL_SOCKET_IFNAME", "^=docker0,lo"),
        ("NCCL_SOCKET_IFNAME", "eth"),
        ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1:0"),
        ("NCCL_IB_HCA", "^mlx5_3"),
        ("NCCL_DEBUG", "anything"),
        ("NCCL_ALGO", ""),
    ],
)
def test_right_values(name: str, value: str) -> None:
    assert fault(name, value) is None


def test_every_grammar_is_of_a_real_variable() -> None:
    assert all(lookup(name) for name in grammars())


def test_precedence(tmp_path: Path) -> None:
    for path, text in {
        "etc/nccl.conf": "NCCL_DEBUG=WARN\nNCCL_NTHREADS=256\nNCCL_ALGO=Ring\n",
        "home/u/.nccl.conf": "# mine\nNCCL_DEBUG=INFO\nNCCL_NTHREADS=128\nNCCL_NET = IB\n",
        "own.conf": "NCCL_DEBUG=TRACE\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    environment = {"HOME": "/home/u", "NCCL_ALGO": "Tree", "PATH": "/bin"}

    def winners(environment: dict[str, str]) -> dict[str, tuple[str, str]]:
        found = audit(environment, version=None, root=tmp_path)
        return {a.name: (a.value, a.place) for a in found.assignments if a.winner is None}

    assert winners(environment) == {
        "NCCL_ALGO": ("Tree", "the environment"),
        "NCCL_DEBUG": ("INFO", "/home/u/.nccl.conf"),
        "NCCL_NTHREADS": ("128", "/home/u/.nccl.conf"),
    }
    own = winners(environment | {"NCCL_CONF_FILE": "/own.conf"})
    assert own["NCCL_DEBUG"] == ("TRACE", "/own.conf")
    assert own["NCCL_NTHREADS"] == ("256", "/etc/nccl.conf")
    old = audit(environment | {"NCCL_CONF_FILE": "/own.conf"}, version="2.21.5", root=tmp_path)
    assert {a.value for a in old.assignments if a.name == "NCCL_DEBUG" and not a.winner} == {"INFO"}
    (useless,) = audit(environment, version=None, root=tmp_path).useless
    assert (useless.file, useless.number) == ("/home/u/.nccl.conf", 4)


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"NCCL_IB_DISABEL": "1"}, "ENV01"),
        ({"NCCL_ALGO": "Rign"}, "ENV02"),
        ({"NCCL_IB_HCA": "mlx5_0:"}, "ENV02"),
        ({"NCCL_TREE_THRESHOLD": "0"}, "ENV04"),
        ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, "ENV05"),
        ({"NCCL_P2P_DISABLE": "1"}, "ENV06"),
        ({"NCCL_MAX_NCHANNELS": "1", "NCCL_BUFFSIZE": "16777216"}, "ENV07"),
        ({"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "mlx5_0"}, "ENV08"),
        ({"NCCL_DEBUG_SUBSYS": "INIT,COLL"}, "ENV09"),
    ],
)
def test_codes(tmp_path: Path, environment: dict[str, str], code: str) -> None:
    found = audit(environment, version="2.28.9", root=tmp_path)
    assert code in {f.code for f in found.findings}
    assert all(f.evidence and f.remedy for f in found.findings)


def test_silence_on_a_usual_environment(tmp_path: Path) -> None:
    usual = {
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_IB_HCA": "mlx5_0,mlx5_1",
        "NCCL_DEBUG": "WARN",
        "NCCL_VERSION": "2.28.9-1",
        "NCCL_OFI_ENABLE": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "MASTER_ADDR": "gpu-1",
        "MASTER_PORT": "29500",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "PATH": "/bin",
    }
    found = audit(usual, version="2.28.9", root=tmp_path)
    assert [f.title for f in found.findings] == []
    assert "PATH" not in {a.name for a in found.assignments}


def test_version_decides(tmp_path: Path) -> None:
    environment = {"NCCL_RAS_ENABLE": "1"}
    assert audit(environment, version="2.24.3", root=tmp_path).findings == ()
    (old,) = audit(environment, version="2.21.5", root=tmp_path).findings
    assert old.code == "ENV04"


def test_a_caret_stands_below_the_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NCCL_ALGO", "Ring,Tre")
    output = CliRunner().invoke(main, ["env"]).output
    lines = output.splitlines()
    row = next(i for i, line in enumerate(lines) if line.lstrip().startswith("^ "))
    assert lines[row].index("^") == lines[row - 1].index("Tre")


def test_another_process(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "NCCL_IB_DISABEL": "1", "NCCL_ALGO": "Ring"}
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        result = CliRunner().invoke(main, ["env", "--pid", str(child.pid), "--json", "-"])
    finally:
        child.communicate(b"\n")
    document = json.loads(result.output)
    assert {v["name"] for v in document["variables"]} >= {"NCCL_IB_DISABEL", "NCCL_ALGO"}
    assert any(f["code"] == "ENV01" for f in document["findings"])


def test_no_such_process() -> None:
    result = CliRunner().invoke(main, ["env", "--pid", "4194305"])
    assert result.exit_code == 2 and "There is no process" in result.output


def test_explain() -> None:
    known = CliRunner().invoke(main, ["env", "--explain", "NCCL_IB_HCA"])
    assert known.exit_code == 0 and "default" in known.output
    unknown = CliRunner().invoke(main, ["env", "--explain", "NCCL_IB_HAC"])
    assert unknown.exit_code == 2 and "did you mean NCCL_IB_HCA" in unknown.output


def test_fail_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NCCL_IB_DISABEL", "1")
    assert CliRunner().invoke(main, ["env"]).exit_code == 0
    assert CliRunner().invoke(main, ["env", "--fail-on", "warning"]).exit_code == 1

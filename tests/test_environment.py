"""The knowledge of environment variables: names, versions, values, owners."""

import pytest

from nccldoctor.knowledge.environment import known_at, lookup, nearest, owner, variables
from nccldoctor.knowledge.values import problem


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_IB_DISABEL", "NCCL_IB_DISABLE"),
        ("NCCL_SOKET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_BUFF_SIZE", "NCCL_BUFFSIZE"),
        ("TORCH_NCCL_ENABLE_MONITOR", "TORCH_NCCL_ENABLE_MONITORING"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
        ("NCCL_MNNVL", "NCCL_MNNVL_ENABLE"),
        ("NCCL_IB_DISABLE", "NCCL_IB_DISABLE"),
        ("NCCL_TIMEOUT", None),
        ("NCCL_FOO", None),
        ("PATH", None),
    ],
)
def test_nearest(wrong: str, right: str | None) -> None:
    assert nearest(wrong) == right


@pytest.mark.parametrize(
    ("name", "version", "known"),
    [
        ("NCCL_DEBUG", "2.28.9+cuda13.0", True),
        ("NCCL_RAS_ENABLE", "2.21.5", False),
        ("NCCL_RAS_ENABLE", "2.24.3", True),
        ("NCCL_LL_THRESHOLD", "2.4.8", True),
        ("NCCL_LL_THRESHOLD", "2.28.9", False),
        ("NCCL_WORK_FIFO_DEPTH", "2.22.3", False),
        ("NCCL_SHM_USE_CUDA_MEMCPY", "2.30.7", None),
        ("NCCL_DEBUG", None, None),
        ("NCCL_TIMEOUT", "2.28.9", False),
        ("RCCL_MSCCL_ENABLE", "2.21.5", None),
    ],
)
def test_known_at(name: str, version: str | None, known: bool | None) -> None:
    assert known_at(name, version) is known


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("NCCL_ALGO", "Rign", False),
        ("NCCL_ALGO", "allreduce:tree,ring;broadcast:ring", True),
        ("NCCL_ALGO", "^NVLS", True),
        ("NCCL_PROTO", "simple", True),
        ("NCCL_PROTO", "LL256", False),
        ("NCCL_IB_DISABLE", "true", False),
        ("NCCL_IB_TIMEOUT", "0x16", True),
        ("NCCL_DEBUG", "info", True),
        ("NCCL_DEBUG", "DEBUG", False),
        ("NCCL_DEBUG_SUBSYS", "^COLL", True),
        ("NCCL_DEBUG_SUBSYS", "INIT,EVN", False),
        ("NCCL_P2P_LEVEL", "SYS", True),
        ("NCCL_P2P_LEVEL", "NVLINK", False),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo", True),
        ("MASTER_PORT", "29500", True),
        ("MASTER_PORT", "tcp://:1", False),
        ("TORCH_DISTRIBUTED_DEBUG", "VERBOSE", False),
    ],
)
def test_values(name: str, value: str, right: bool) -> None:
    assert (problem(name, value) is None) is right


def test_subsystem_younger_than_the_library() -> None:
    assert problem("NCCL_DEBUG_SUBSYS", "INIT,RAS", "2.21.5")
    assert problem("NCCL_DEBUG_SUBSYS", "INIT,RAS", "2.28.9") is None


def test_owners() -> None:
    assert "aws-ofi-nccl" in (owner("OFI_NCCL_PROTOCOL") or "")
    assert owner("NCCL_GIB_ANYTHING")
    assert owner("NCCL_DEBUG") is None


def test_every_fact_has_its_source_and_every_new_name_exists() -> None:
    for variable in variables().values():
        assert variable.source
        assert variable.replaced_by is None or lookup(variable.replaced_by)

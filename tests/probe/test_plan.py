"""The probe's plan: rounds of pairs, sub-groups, sizes, and the factors to bus bandwidth."""

import pytest

from nccldoctor.collect.probe import ops, plan
from nccldoctor.knowledge import links


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_every_pair_of_a_host_meets_once_and_nobody_twice_in_a_round(count: int) -> None:
    met = []
    for meeting in plan.rounds(["host"] * count):
        ranks = [rank for pair in meeting for rank in pair]
        assert len(ranks) == len(set(ranks))
        met += meeting
    assert sorted(met) == [(a, b) for a in range(count) for b in range(a + 1, count)]


def test_hosts_meet_in_logarithmically_many_rounds() -> None:
    hosts = [f"h{i // 2}" for i in range(32)]
    across = [m for m in plan.rounds(hosts) if any(hosts[a] != hosts[b] for a, b in m)]
    assert len(across) == 4  # log2 of 16 hosts
    assert all(hosts[a] != hosts[b] for m in across for a, b in m)


def test_groups_of_two_hosts() -> None:
    known = plan.groups(["a", "a", "b", "b"])
    assert known.by_name["host"] == ((0, 1), (2, 3))
    assert known.by_name["rail"] == ((0, 2), (1, 3))
    assert known.by_name["half"] == ((0, 1), (2, 3))
    assert known.of("rail", 3) == (1, 3)


def test_one_host_has_no_rails() -> None:
    assert set(plan.groups(["a", "a"]).by_name) == {"world"}


def test_no_step_is_larger_than_memory_allows() -> None:
    settings = plan.Settings(steps="full", device="cuda")
    found = plan.steps(settings, plan.groups(["a"] * 8), 64 * plan.MIB)
    assert max(step.size_bytes for step in found) == 64 * plan.MIB
    assert {step.op for step in found} == {*plan.OPS, "barrier", "copy"}
    assert {"async", "graph", ""} == {step.variant for step in found}


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_probe_and_knowledge_agree_on_the_factors(ranks: int) -> None:
    for op in plan.OPS:
        wire_us = links.transfer_us(ops.NCCL_NAMES[op], 10**9, ranks, 1.0)
        assert wire_us == pytest.approx(1e6 * ops.bus_factor(op, ranks))


def test_the_factor_of_all_reduce_on_eight_ranks() -> None:
    assert (
        ops.bus_factor("all_reduce", 8) == 1.75
    )  # not 8, as size / time * 2 * 2 * 2 would have it


def test_one_rank_has_no_bus() -> None:
    assert {ops.bus_factor(op, 1) for op in plan.OPS} == {0.0}
    assert ops.bus_factor("copy", 1) == 1.0


@pytest.mark.parametrize(
    ("number", "version"),
    [(22809, (2, 28, 9)), (23203, (2, 32, 3)), (2804, (2, 8, 4)), (21805, (2, 18, 5))],
)
def test_version_from_its_number(number: int, version: tuple[int, int, int]) -> None:
    assert plan.version_of(number) == version

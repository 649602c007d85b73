"""The cases that a flight-recorder analysis must get right, where PyTorch's own does and where it does not."""

import pickle
from typing import Any

import pytest

from nccldoctor.model.events.recorder_log import RecorderLog
from tests.hang.recorder_dumps import Entry, dump, entry, loud, of_ranks, report, verdict

COLLECTIVES = [
    "all_reduce",
    "allreduce_coalesced",
    "broadcast",
    "_broadcast_oop",
    "reduce",
    "_reduce_oop",
    "all_gather",
    "_all_gather_base",
    "all_gather_into_tensor_coalesced",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "gather",
    "scatter",
    "all_to_all",
    "all_reduce_barrier",
    "ALLGATHER_coalesced",
]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_matches_itself(name: str) -> None:
    sizes: dict[str, Any] = {}
    if "gather" in name:
        sizes = {"output_sizes": [[12, 4]]}
    elif "reduce_scatter" in name:
        sizes = {"input_sizes": [[12, 4]]}
    same = [entry(name, **sizes, state="completed")]
    assert loud(of_ranks(same, same, same)) == []


@pytest.mark.parametrize(
    ("usual", "odd", "code"),
    [
        (entry("all_reduce"), entry("all_gather"), "COLL01"),
        (entry("all_gather"), entry("_all_gather_base"), "COLL01"),
        (entry("all_reduce"), entry("all_reduce_barrier"), "COLL01"),
        (
            entry("broadcast"),
            entry("broadcast", input_sizes=[[4, 5]], output_sizes=[[4, 5]]),
            "COLL02",
        ),
        (entry("all_reduce"), entry("all_reduce", output_sizes=[[4, 5]]), "COLL02"),
        (
            entry("all_reduce"),
            entry("all_reduce", input_dtypes=["Half"], output_dtypes=["Half"]),
            "COLL02",
        ),
        (
            entry("all_gather", output_sizes=[[12, 4]]),
            entry("all_gather", output_sizes=[[8, 4]]),
            "COLL02",
        ),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_odd_one_is_named_whoever_is_read_first(
    usual: Entry, odd: Entry, code: str, position: int
) -> None:
    ranks = [[usual], [usual], [usual]]
    ranks[position] = [odd]
    assert verdict(of_ranks(*ranks)) == (code, (position,))


def test_two_ranks_have_no_majority() -> None:
    assert verdict(of_ranks([entry("all_reduce")], [entry("broadcast")])) == ("COLL01", (0, 1))


@pytest.mark.parametrize(
    ("name", "field"), [("gather", "output_sizes"), ("scatter", "input_sizes")]
)
def test_empty_side_of_a_root_operation_is_no_mismatch(name: str, field: str) -> None:
    root = entry(name, **{field: [[4, 4]] * 3}, state="completed")
    other = entry(name, **{field: []}, state="completed")
    assert loud(of_ranks([root], [other], [other])) == []


def test_uneven_all_to_all_is_no_mismatch() -> None:
    ranks = [
        [entry("all_to_all", input_sizes=[[n]], output_sizes=[[6 - n]], state="completed")]
        for n in (2, 3, 4)
    ]
    assert loud(of_ranks(*ranks)) == []


def _exchange(sent: int, received: int, sequence: int = 1) -> Entry:
    return entry("all_to_all", sequence, input_sizes=[[sent]], output_sizes=[[received]])


def test_all_to_all_of_which_more_is_sent_than_received() -> None:
    uneven = of_ranks([_exchange(2, 4)], [_exchange(3, 3)], [_exchange(4, 3)])
    assert verdict(uneven) == ("COLL02", (0, 2))
    assert "send 9 elements and receive 10" in uneven.verdict.headline
    even = [_exchange(6, 6)]
    assert verdict(of_ranks([*even, _exchange(6, 6, 2)], [*even, _exchange(7, 6, 2)])) == (
        "COLL02",
        (1,),
    )


def test_totals_are_not_compared_where_a_rank_is_missing_or_later_calls_differ() -> None:
    both = {"0": (0, 1, 2)}
    assert verdict(of_ranks([_exchange(2, 4)], [_exchange(3, 3)], groups=both))[0] != "COLL02"
    lost = [_exchange(3, 3, 2)]
    assert loud(of_ranks([_exchange(2, 4), *lost], lost)) == []
    late = [_exchange(2, 4, 2)]
    assert verdict(
        of_ranks([entry("all_reduce"), *late], [entry("broadcast"), *late], [entry("all_reduce")])
    ) == ("COLL01", (1,))


def test_same_number_of_elements_in_another_shape_is_no_mismatch() -> None:
    flat = entry("all_reduce", input_sizes=[[16]], output_sizes=[[16]], state="completed")
    assert loud(of_ranks([entry("all_reduce", state="completed")], [flat])) == []


def test_states_of_a_live_job_differ_by_right() -> None:
    states = ["scheduled", "started", "completed"]
    assert loud(of_ranks(*([entry("all_reduce", state=s)] for s in states))) == []


def test_missing_rank() -> None:
    full = [entry("all_reduce", n, state="completed") for n in range(1, 6)] + [
        entry("broadcast", 6)
    ]
    found = of_ranks(full, full, full[:5], full)
    assert verdict(found) == ("HANG01", (2,))
    assert "Broadcast(16 elements, float32), the 6th collective" in found.verdict.headline
    assert "train.py:7 in step" in found.findings[0].explanation


@pytest.mark.parametrize("backend", ["nccl", "ncclx", "gloo", "xccl", "nccl2", "hccl", "odd:name"])
def test_any_backend(backend: str) -> None:
    full = [entry(f"{backend}:all_reduce", n) for n in (1, 2)]
    assert verdict(of_ranks(full, full[:1], full)) == ("HANG01", (1,))


def test_groups_of_one_name_with_other_ranks_are_two_groups() -> None:
    def rank(number: int, size: int) -> dict[str, Any]:
        half = (0, 1) if number < 2 else (2, 3)
        calls = [entry("all_reduce", process_group=("1", "sub"), input_sizes=[[size]], output_sizes=[[size]], state="completed")]  # fmt: skip
        return dump(calls, {"1": half})

    dumps = {f"fr_rank_{n}": rank(n, 8 if n < 2 else 64) for n in range(4)}
    assert loud(report(dumps)) == []


def test_coalesced_block_shares_a_sequence_number() -> None:
    block = [
        entry("broadcast", 1, state="completed"),
        entry("broadcast", 1, input_sizes=[[9]], output_sizes=[[9]], state="completed"),
        entry("coalesced", 1, input_sizes=[], output_sizes=[], state="completed"),
        entry("all_reduce", 2, state="completed"),
    ]
    assert loud(of_ranks(block, block)) == []
    odd = [block[0], entry("broadcast", 1, input_sizes=[[8]], output_sizes=[[8]]), *block[2:]]
    assert verdict(of_ranks(block, odd, block))[1] == (1,)


@pytest.mark.parametrize("parts", ["_broadcast_oop", "_reduce_oop"])
def test_uneven_list_forms(parts: str) -> None:
    whole = "ALLGATHER_coalesced" if parts == "_broadcast_oop" else "REDUCE_SCATTER_coalesced"
    uneven = [
        entry(parts, 1, input_sizes=[[n]], output_sizes=[[n]], state="completed") for n in (3, 5)
    ]
    end = entry(whole, 1, state="completed")
    assert loud(of_ranks([*uneven, end], [*uneven, end])) == []
    other = [uneven[0], entry(parts, 1, input_sizes=[[4]], output_sizes=[[4]]), end]
    assert verdict(of_ranks([*uneven, end], other, [*uneven, end]))[1] == (1,)


def test_empty_coalesced_call_on_one_rank() -> None:
    full = [entry("_reduce_oop", 1), entry("coalesced", 1)]
    assert verdict(of_ranks([entry("coalesced", 1)], full, full)) == ("COLL01", (0,))


def _p2p(name: str, number: int, state: str = "scheduled", size: int = 16) -> Entry:
    return entry(name, 0, p2p_seq_id=number, is_p2p=True, state=state, input_sizes=[[size]], output_sizes=[[size]])  # fmt: skip


def test_matched_point_to_point() -> None:
    assert loud(of_ranks([_p2p("send 0->1", 1)], [_p2p("recv 1<-0", 1)])) == []


def test_receive_from_any_source_matches() -> None:
    assert loud(of_ranks([_p2p("send 0->1", 1)], [_p2p("recv 1<-?", 1)])) == []


def test_receive_without_its_send() -> None:
    done = _p2p("send 0->1", 1, "completed")
    found = of_ranks([done], [_p2p("recv 1<-0", 1, "completed"), _p2p("recv 1<-0", 2)])
    assert verdict(found) == ("COLL04", (0, 1))
    assert "rank 1 receives 1 times from rank 0, which sends 0 times" in found.verdict.headline


def test_sizes_of_send_and_receive() -> None:
    found = of_ranks([_p2p("send 0->1", 1, size=8)], [_p2p("recv 1<-0", 1)])
    assert verdict(found)[0] == "COLL04"
    assert "sends 8 elements to rank 1, which expects 16" in found.verdict.headline


def test_circle_of_sends() -> None:
    found = of_ranks(*([_p2p(f"send {n}->{(n + 1) % 3}", 1)] for n in range(3)))
    assert verdict(found) == ("COLL04", (0, 1, 2))
    assert "0 -> 1 -> 2 -> 0" in found.verdict.headline


def test_ring_buffers_that_lost_other_beginnings() -> None:
    """Ranks use other groups beside, so their rings begin at other sequence numbers and record numbers."""
    full = [entry("all_reduce", n, state="completed") for n in range(1, 40)]
    beside = [
        entry("broadcast", n, process_group=("1", "sub"), state="completed") for n in range(20)
    ]
    groups = {"0": range(3), "1": range(1)}
    good = of_ranks([*beside, *full[30:]], full[5:], full[20:], groups=groups)
    assert loud(good) == []
    odd = [*full[5:37], entry("broadcast", 38)]
    assert verdict(of_ranks([*beside, *full[30:38]], odd, full[20:38], groups=groups)) == (
        "COLL01",
        (1,),
    )


def test_two_groups_and_the_root() -> None:
    """Rank 1 stays away from a pair; rank 0 waits there, and is behind in the group of all for that."""
    pair = {"process_group": ("1", "tp"), "pg_id": 1}
    other = {"process_group": ("2", "tp"), "pg_id": 2}
    everybody = [entry("all_reduce", 1), entry("all_reduce", 2)]
    ranks = [
        [everybody[0], entry("all_reduce", 1, **pair)],
        [everybody[0]],
        [everybody[0], entry("all_reduce", 1, **other), everybody[1]],
        [everybody[0], entry("all_reduce", 1, **other), everybody[1]],
    ]
    groups = {"0": range(4), "1": (0, 1), "2": (2, 3)}
    assert verdict(of_ranks(*ranks, groups=groups)) == ("HANG01", (1,))


def test_opposite_order_of_two_groups() -> None:
    groups = {"1": (0, 1), "2": (0, 1)}
    first, second = {"process_group": ("1", "a")}, {"process_group": ("2", "b"), "pg_id": 1}
    found = of_ranks(
        [entry("all_reduce", 1, **first)], [entry("all_reduce", 1, **second)], groups=groups
    )
    assert verdict(found) == ("COLL03", (0, 1))


def _mesh(rank: int, skips: int | None = None, stuck: bool = False) -> list[Entry]:
    """Two steps over a tensor group ([0, 1], [2, 3]) and a data group ([0, 2], [1, 3]), then all together."""
    tensor = {"process_group": (str(1 + rank // 2), "tp"), "pg_id": 1}
    data = {"process_group": (str(3 + rank % 2), "dp"), "pg_id": 2}
    made = [[entry("all_reduce", s, **tensor), entry("all_reduce", s, **data)] for s in (1, 2)]
    if skips is not None:
        del made[skips][0]
        made[1][0]["collective_seq_id"] = 1
    return [e for step in made for e in step][: -1 if stuck else None]


def test_a_call_left_out_in_a_mesh_goes_round_in_a_circle_of_three() -> None:
    """Rank 2 leaves out a call of its tensor group, and comes early to the call of all."""
    together = entry("all_reduce", 1, input_sizes=[[9]], output_sizes=[[9]])
    groups = {"0": range(4), "1": (0, 1), "2": (2, 3), "3": (0, 2), "4": (1, 3)}
    ranks = [
        [*_mesh(0), together],
        _mesh(1),
        [*_mesh(2, skips=0), together],
        _mesh(3, stuck=True),
    ]
    found = of_ranks(*ranks, groups=groups)
    assert verdict(found) == ("COLL03", (2,))
    assert "Rank 2 left out a call" in found.verdict.headline


def test_versions_that_differ_and_torn_and_empty_dumps() -> None:
    full = [entry("all_reduce", n) for n in range(1, 30)]
    groups = {"0": range(4)}
    whole = pickle.dumps(dump(full, groups), 2)
    found = report(
        {
            "node1_fr_rank_0": dump(full, groups, version="2.4"),
            "node2_fr_rank_1": whole[: int(len(whole) * 0.98)],
            "node1_fr_rank_2": dump(full, groups),
            "node2_fr_rank_3": b"",
        }
    )
    loud(found)
    assert any("cut short" in source.note for source in found.inputs)
    assert any("not a readable" in source.note for source in found.inputs)


def test_a_thousand_ranks_name_one() -> None:
    full = [entry("all_reduce", n, state="completed") for n in range(1, 4)]
    ranks = [full] * 1000
    ranks[617] = full[:2]
    assert verdict(of_ranks(*ranks)) == ("HANG01", (617,))


def test_entries_are_not_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand dumps of two thousand entries are read in seconds only as long as nobody walks over all entries."""
    made = 0
    plain = RecorderLog.__getitem__

    def counted(log: RecorderLog, index: int) -> Any:
        nonlocal made
        made += 1
        return plain(log, index)

    monkeypatch.setattr(RecorderLog, "__getitem__", counted)
    full = [entry("all_reduce", n, state="completed") for n in range(1, 1000)]
    assert verdict(of_ranks(*[full] * 7, full[:-1])) == ("HANG01", (7,))
    assert made < 8 * 32

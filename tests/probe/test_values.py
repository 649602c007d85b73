"""Value checks: what is right passes, and every single wrong element is found."""

import pytest

from nccldoctor.collect.probe import plan, values

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("datatype", ["float32", *plan.DATATYPES])
@pytest.mark.parametrize("ranks", [2, 8, 300])
def test_sums_are_exact_in_every_datatype(datatype: str, ranks: int) -> None:
    pattern = values.Pattern(torch, datatype, "cpu", ranks)
    total = torch.zeros(values.PERIOD, dtype=pattern.dtype)
    for sender in range(ranks):
        total += pattern.addend(sender)
    assert torch.equal(total, pattern.summed(ranks))
    assert len(set(total[:2000].tolist())) > 1


def test_every_wrong_element_is_counted() -> None:
    pattern = values.Pattern(torch, "float32", "cpu", 4)
    buffer = torch.empty(3 * values.PERIOD + 17)
    values.fill(buffer, pattern.values(2))
    assert values.wrong(torch, buffer, pattern.values(2)) == 0
    for place in (0, values.PERIOD, buffer.numel() - 1):
        buffer[place] = pattern.poison
    assert values.wrong(torch, buffer, pattern.values(2)) == 3


def test_swapped_chunks_and_other_senders_are_wrong() -> None:
    pattern = values.Pattern(torch, "int32", "cpu", 4)
    buffer = torch.empty(1 << 17, dtype=torch.int32)
    values.fill(buffer, pattern.values(1))
    half = buffer.numel() // 2
    swapped = torch.cat([buffer[half:], buffer[:half]])
    assert values.wrong(torch, swapped, pattern.values(1)) > half
    assert values.wrong(torch, buffer, pattern.values(3)) > half


@pytest.mark.parametrize("datatype", ["float32", "bfloat16", "uint8"])
def test_poison_is_no_value(datatype: str) -> None:
    pattern = values.Pattern(torch, datatype, "cpu", 2)
    poison = torch.full((1,), pattern.poison, dtype=pattern.dtype)
    assert not (pattern.values(0) == poison).any()
    assert not (pattern.summed(2) == poison).any()

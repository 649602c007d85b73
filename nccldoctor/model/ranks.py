"""Many ranks in few words, the same in titles and in reports."""

from collections.abc import Iterable, Iterator, Sequence

_STRIDED = 5
"""So many ranks at equal steps are worth a phrase of their own."""


def ranges(numbers: Iterable[int], most: int = 12) -> str:
    """`0-3, 7`: sorted, neighbours folded from three on; `4-1020 in steps of 8`; at most `most` pieces."""
    pieces = list(_pieces(sorted(set(numbers))))
    told = [words for words, _ in pieces[:most]]
    more = sum(count for _, count in pieces[most:])
    return ", ".join(told) + (f" and {more} more" if more else "")


def _pieces(numbers: Sequence[int]) -> Iterator[tuple[str, int]]:
    """(words, how many ranks they stand for), from left to right."""
    at = 0
    while at < len(numbers):
        end = _end_of_steps(numbers, at)
        first, last, count = numbers[at], numbers[end], end - at + 1
        step = numbers[at + 1] - first if end > at else 1
        if step == 1 and count > 2:
            yield f"{first}-{last}", count
        elif count >= _STRIDED:
            yield f"{first}-{last} in steps of {step}", count
        else:
            end, count = at, 1
            yield str(first), count
        at = end + 1


def _end_of_steps(numbers: Sequence[int], start: int) -> int:
    """The index of the last number that follows `start` at equal steps."""
    end = start + 1
    if end >= len(numbers):
        return start
    step = numbers[end] - numbers[start]
    while end + 1 < len(numbers) and numbers[end + 1] - numbers[end] == step:
        end += 1
    return end

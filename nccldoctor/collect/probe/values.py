"""Exact patterns: what every element must be after a collective, and how many are not."""

from typing import Any

PERIOD = 65521
"""A prime, so that two chunks swapped by a power of two never look alike."""

_EXACT_UP_TO = {
    "float64": 1 << 53,
    "float32": 1 << 24,
    "float16": 1 << 11,
    "bfloat16": 1 << 8,
    "int64": 1 << 62,
    "int32": (1 << 31) - 1,
    "uint8": 254,
}
_SLICE = 1 << 26


class Pattern:
    """Integers that every datatype holds exactly, also when summed over `ranks` ranks. Poison is no value of it."""

    def __init__(self, torch: Any, datatype: str, device: Any, ranks: int) -> None:
        self._torch = torch
        self.dtype = getattr(torch, datatype)
        limit = _EXACT_UP_TO[datatype]
        modulus = min(251, limit // max(ranks, 1))
        self._adding = ranks
        if modulus < 2:  # too many ranks for this datatype: only the first ones add anything
            modulus, self._adding = 2, limit // 2
        self._base = torch.arange(PERIOD, device=device, dtype=torch.int64) % modulus
        self.poison = 255 if datatype == "uint8" else -1

    def values(self, sender: int, part: int = 0) -> Any:
        """One period of what `sender` sends (its part for receiver `part`)."""
        return self._rolled(sender, part).to(self.dtype)

    def summed(self, senders: int, first: int = 0) -> Any:
        """One period of the sum over all senders, from element `first` on."""
        total = self._torch.zeros_like(self._base)
        for sender in range(senders):
            total += self._rolled(sender, 0, adds=True)
        return self._torch.roll(total, -first).to(self.dtype)

    def addend(self, sender: int) -> Any:
        """One period of what `sender` gives to a sum."""
        return self._rolled(sender, 0, adds=True).to(self.dtype)

    def _rolled(self, sender: int, part: int, adds: bool = False) -> Any:
        if adds and sender >= self._adding:
            return self._torch.zeros_like(self._base)
        return self._torch.roll(self._base, -(sender * 1009 + part * 131) % PERIOD)


def fill(buffer: Any, period: Any) -> None:
    """Writes the period over and over into a flat buffer."""
    whole = buffer.numel() // PERIOD * PERIOD
    if whole:
        buffer[:whole].view(-1, PERIOD).copy_(period.expand(whole // PERIOD, PERIOD))
    buffer[whole:].copy_(period[: buffer.numel() - whole])


def wrong(torch: Any, buffer: Any, period: Any) -> int:
    """How many elements of a flat buffer are not what the period says; every element is looked at."""
    step = _SLICE // PERIOD * PERIOD
    count = 0
    for start in range(0, buffer.numel(), step):
        piece = buffer[start : start + step]
        whole = piece.numel() // PERIOD * PERIOD
        if whole:
            count += int(torch.count_nonzero(piece[:whole].view(-1, PERIOD) != period))
        rest = piece[whole:]
        count += int(torch.count_nonzero(rest != period[: rest.numel()]))
    return count

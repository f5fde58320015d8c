"""The set of states already seen: an open-addressing hash table in tensors, on any device.

A slot holds the number of a state, and the states stand in the order in which they were found, so that each level of a
breadth-first search is a range. States are compared word by word: the hash only says where to look first.
"""

from __future__ import annotations

import math

import torch

__all__ = ["Full", "StateSet"]

EMPTY = -1
SLICES = {"cpu": 1 << 17, "cuda": 1 << 24}
"""How many candidates are looked up together: enough to amortise the calls, few enough to stay in a CPU's cache."""

_FACTOR = -7046029254386353131  # 2**64 divided by the golden ratio, odd: multiplicative hashing


class Full(Exception):
    """There is no room for more states."""


class StateSet:
    """Distinct states of a fixed number of 64-bit words, numbered in the order of arrival."""

    def __init__(self, words: int, *, device: torch.device, capacity: int = 1 << 12, limit: int | None = None) -> None:
        """Begin with none; ``limit`` is the most bytes that the set may ever take, while it grows too."""
        self.count = 0
        self._limit = math.inf if limit is None else limit
        self.peak_bytes = 0
        self._slice = SLICES.get(device.type, SLICES["cpu"])
        self._states = torch.empty((words, capacity), dtype=torch.int64, device=device)
        self._table = self._empty(capacity * 4)

    def _empty(self, slots: int) -> torch.Tensor:
        # 32 bits suffice for 2**31 states, which alone are 16 GiB.
        return torch.full((slots,), EMPTY, dtype=torch.int32, device=self._states.device)

    def states(self, start: int, end: int) -> torch.Tensor:
        """The states that came in at these places, one column a state."""
        return self._states[:, start:end]

    def add(self, candidates: torch.Tensor) -> None:
        """Put in those that are not there yet.

        Raises:
            Full: there is no room for all of them; some are in.
        """
        for start in range(0, candidates.shape[1], self._slice):
            part = candidates[:, start : start + self._slice]
            self._reserve(part.shape[1])
            self._insert(part)
        self.peak_bytes = max(self.peak_bytes, self._taken())

    def numbers(self, words: torch.Tensor) -> torch.Tensor:
        """The numbers of these states, all of which were put in."""
        found = torch.empty(words.shape[1], dtype=torch.int32, device=words.device)
        for start in range(0, words.shape[1], self._slice):
            self._look_up(words[:, start : start + self._slice], found[start : start + self._slice])
        return found

    def _look_up(self, words: torch.Tensor, found: torch.Tensor) -> None:
        slots, rows = self._slots(words), torch.arange(words.shape[1], device=words.device)
        while len(rows):
            numbers = self._table.index_select(0, slots)
            same = self._same(numbers.clamp(min=0), words) & (numbers >= 0)
            found[rows] = numbers
            rest = torch.nonzero(~same).squeeze(1)
            words, rows = words.index_select(1, rest), rows.index_select(0, rest)
            slots = (slots.index_select(0, rest) + 1) & (len(self._table) - 1)

    def _reserve(self, more: int) -> None:
        needed = self.count + more
        if needed > self._states.shape[1]:
            self._grow(needed)
        if needed * 2 > len(self._table):
            self._widen(needed * 2)

    def _grow(self, needed: int) -> None:
        """Make room for so many states; more where that is to be had, so that it need not be done often."""
        words, columns = self._states.shape
        room = (self._limit - self._taken()) // (words * self._states.itemsize)
        if room < needed:
            raise Full
        grown = torch.empty(
            (words, int(min(max(needed, columns * 3 // 2), room))), dtype=torch.int64, device=self._states.device
        )
        grown[:, : self.count] = self.states(0, self.count)
        self._states = grown

    def _widen(self, needed: int) -> None:
        """Make a table of so many slots or more."""
        slots = len(self._table)
        while needed > slots:
            slots *= 4
        room = (self._limit - self._taken()) // self._table.itemsize
        if room < slots:
            slots //= 2  # Still enough, where a factor of 2 was.
        if room < slots or slots < needed:
            raise Full
        self._table = self._empty(slots)
        for start in range(0, self.count, self._slice):
            self._rehash(start, min(start + self._slice, self.count))

    def _taken(self) -> int:
        return self._states.nbytes + self._table.nbytes

    def _slots(self, words: torch.Tensor) -> torch.Tensor:
        """Where to look first: the top bits of a product that depends on every bit of the state."""
        mixed = words[0]
        for word in words[1:]:
            mixed = ((mixed ^ (mixed >> 31)) * _FACTOR) ^ word
        bits = len(self._table).bit_length() - 1
        return (((mixed ^ (mixed >> 32)) * _FACTOR) >> (64 - bits)) & (len(self._table) - 1)

    def _same(self, numbers: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        same = self._states[0].index_select(0, numbers) == words[0]
        for known, word in zip(self._states[1:], words[1:], strict=True):
            same &= known.index_select(0, numbers) == word
        return same

    def _insert(self, words: torch.Tensor) -> None:
        slots = self._slots(words)
        while True:
            found = self._table.index_select(0, slots)
            filled = found >= 0
            same = self._same(found.clamp(min=0), words) & filled
            rest = torch.nonzero(~same).squeeze(1)
            if not len(rest):
                return
            words, slots, filled = (
                words.index_select(1, rest),
                slots.index_select(0, rest),
                filled.index_select(0, rest),
            )
            left = self._claim(slots, ~filled)
            new = torch.nonzero(~left & ~filled).squeeze(1)
            self._append(words.index_select(1, new), slots.index_select(0, new))
            # Who found another state goes on to the next slot; who lost a free slot compares itself with the winner
            # there.
            slots = (slots + filled).bitwise_and_(len(self._table) - 1)
            rest = torch.nonzero(left).squeeze(1)
            if not len(rest):
                return
            words, slots = words.index_select(1, rest), slots.index_select(0, rest)

    def _claim(self, slots: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Of those who want the same free slot one gets it; returns who is still without."""
        own = torch.arange(EMPTY - 1, EMPTY - 1 - len(slots), -1, dtype=torch.int32, device=slots.device)
        rows = torch.nonzero(wanted).squeeze(1)
        self._table[slots.index_select(0, rows)] = own.index_select(0, rows)
        return (self._table.index_select(0, slots) != own) | ~wanted

    def _append(self, words: torch.Tensor, slots: torch.Tensor) -> None:
        end = self.count + words.shape[1]
        self._states[:, self.count : end] = words
        self._table[slots] = torch.arange(self.count, end, dtype=torch.int32, device=slots.device)
        self.count = end

    def _rehash(self, start: int, end: int) -> None:
        """Enter states that are known to be distinct into a new table."""
        numbers = torch.arange(start, end, dtype=torch.int32, device=self._states.device)
        slots = self._slots(self.states(start, end))
        while len(numbers):
            taken = self._table.index_select(0, slots) != EMPTY
            left = self._claim(slots, ~taken)
            won = torch.nonzero(~left).squeeze(1)
            self._table[slots.index_select(0, won)] = numbers.index_select(0, won)
            rest = torch.nonzero(left).squeeze(1)
            slots = ((slots + left) & (len(self._table) - 1)).index_select(0, rest)
            numbers = numbers.index_select(0, rest)

"""E3: a hash names one content for ever, as far as bounded memory reaches."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Contents", "Memory"]


class Contents:
    """What the hashes of one place and one size of blocks were first told to name, as a fingerprint each; None where
    nothing was told but that they were stored.

    Whoever finds a hash in the old generation only puts it into the young one.
    """

    __slots__ = ("old", "young")

    def __init__(self) -> None:
        self.young: dict[Hashable, int | None] = {}
        self.old: dict[Hashable, int | None] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self.young or key in self.old


class Memory:
    """The contents of all places together, in two generations: when the young one is full, the old one is forgotten."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most // 2)
        self._all: list[Contents] = []
        self.forgot = False
        """Whether anything was forgotten: what is not remembered may then have been told long ago."""

    def place(self) -> Contents:
        """Remember one place more."""
        self._all.append(Contents())
        return self._all[-1]

    @property
    def size(self) -> int:
        """How many hashes are remembered."""
        return sum(len(contents.young) + len(contents.old) for contents in self._all)

    def grow_old(self) -> None:
        """Forget the old generation where the young one is full."""
        if sum(len(contents.young) for contents in self._all) < self._most:
            return
        for contents in self._all:
            self.forgot |= bool(contents.old)
            contents.old, contents.young = contents.young, {}

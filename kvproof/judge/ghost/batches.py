"""Batches that an engine has launched and not processed: nobody knows when they write (O8)."""

from collections import deque
from collections.abc import Iterable

__all__ = ["Batches"]


class Batches:
    """The blocks of the device that batches under way write or clear, those of requests that are over too.

    A batch is a scheduled step as the device does it: what it writes is written in the order of batches, so that the
    next one may write to a block that this one still writes to. A copy that knows nothing of that order may not.
    """

    def __init__(self) -> None:
        self._under_way: deque[set[int]] = deque()
        """Oldest first."""
        self._passed: dict[int, str] = {}
        """Whose forward pass in the batch that began last writes to a block."""

    def turn(self, phase: str) -> None:
        """A batch begins, which does what is told from here on, or the oldest one ends."""
        if phase == "begin":
            self._under_way.append(set())
            self._passed.clear()
        elif self._under_way:
            self._under_way.popleft()

    def write(self, blocks: Iterable[int]) -> None:
        """The batch that began last writes to these blocks; without one, what is written is written at once."""
        if self._under_way:
            self._under_way[-1].update(blocks)

    def passes_over(self, block: int, r: str) -> None:
        """A forward pass of a request, in the batch that began last, writes to the block."""
        self.write((block,))
        if self._under_way:
            self._passed[block] = r

    def written_now(self, block: int | None) -> str | None:
        """The request whose forward pass writes to this block in the batch that is told of.

        The passes of a batch begin at once: a state that one of them leaves is there for the next batch, and not for
        another one of them.
        """
        return None if block is None else self._passed.get(block)

    def writes(self, block: int) -> bool:
        """Whether one under way writes to the block."""
        return any(block in blocks for blocks in self._under_way)

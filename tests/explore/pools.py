"""Scopes of machine P, and mutants of it with one thing wrong."""

from __future__ import annotations

from typing import Any

from kvproof.machine import Int, Machine, Model, when
from kvproof.machine.scope import Scope
from kvproof.spec.pool import Block, Hash, Pool, Request

PLAIN: dict[str, Any] = {
    "null": None,
    "caching": True,
    "split": False,
    "kv": [[0]],
    "parent": [None],
    "prompt": [[0, 0], [0, 0]],
    "limit": [1, 1],
    "need": [2, 2],
}
CHAINED: dict[str, Any] = {"kv": [[0], [0]], "parent": [None, 0], "prompt": [[0, 1], [0, 1]]}
"""Two hashes, the second of a block that follows on the first."""

PARTIAL: dict[str, Any] = {"kv": [[0, None], [0, 0]], "parent": [None, None], "prompt": [[1, 1], [1, 1]]}
"""Two slots; the first hash names a block that is half full, the second the full one."""


def scope(
    machine: type[Machine] = Pool, *, blocks: int = 2, more: dict[str, int] | None = None, **dialect: Any
) -> Scope:
    """Two requests with up to two blocks each; hashes and slots are as many as ``kv`` has; ``more`` sizes."""
    params = PLAIN | dialect
    positions = len(params["prompt"][0])
    sizes = {
        "Block": blocks,
        "Request": 2,
        "Hash": len(params["kv"]),
        "Slot": len(params["kv"][0]),
        "Content": 1,
        "Position": positions,
        "Int": positions,
        **(more or {}),
    }
    return Scope(Model.of(machine), sizes, params)


class ForgetKeepsTheMap(Pool):
    """A block loses its hashes, and a lookup still finds it."""

    def _forget(self, b: Block) -> None:
        with self.each(Hash) as h, when(self.hashes[b, h]):
            self.hashes[b, h] = False


class ReleaseWhileReferenced(Pool):
    """A block joins the queue at every release."""

    def _release(self, b: Block) -> None:
        self.ref_cnt[b] = self.ref_cnt[b] - 1
        self.free.push_back(b)


class AllocateWithoutRemoving(Pool):
    """The head of the queue is handed out and stays there."""

    def _take_head(self) -> Block:
        return self.free.head()


class TakeFromTheTail(Pool):
    """The last block of the queue is taken first."""

    def _take_head(self) -> Block:
        b = self.free.tail()
        self.free.remove(b)
        return b


class RemoveTwice(Pool):
    """The block that is taken is removed from the queue once more."""

    def _take_head(self) -> Block:
        b = self.free.head()
        self.free.remove(b)
        self.free.remove(b)
        return b


class NeverShared(Pool):
    """A lookup finds nothing."""

    def hit(self, r: Request) -> Int:
        self.require(~self.running[r] & self.running[r])
        self.running[r] = True
        return self.length[r]

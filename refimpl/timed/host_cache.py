"""The host tier in virtual time: blocks in the order of their last use, some of them being read (G5, G6)."""

from collections import OrderedDict
from collections.abc import Collection

from ..errors import RefusedError
from .records import Removed, Stored, TierEvent


def check_offload(engine: str, host_blocks: int, able: Collection[str]) -> None:
    """Refuse a host tier for an engine that cannot offload (G7): ignored, it would look as if it were useless.

    ``able`` names the kinds of engines that can. Without host blocks there is no tier, and any engine will do.
    """
    if host_blocks > 0 and engine not in able:
        raise RefusedError(
            f"{host_blocks} host blocks are configured, but {engine} cannot offload: configure 0 of them, "
            f"or take an engine that can ({', '.join(sorted(able))})"
        )


class HostCache:
    """Which keys the host tier has, and in which order they would leave; what is being read cannot leave.

    Its caller keeps to the order of steps: a key lands while it is not there, and is read while it is.
    """

    __slots__ = ("capacity", "order", "reading")

    def __init__(self, capacity: int) -> None:
        """Make an empty tier of ``capacity`` blocks."""
        self.capacity = capacity
        self.order: OrderedDict[bytes, None] = OrderedDict()
        self.reading: dict[bytes, int] = {}

    def __contains__(self, key: object) -> bool:
        """Tell whether a block can be found. That alone is no use of it (G5)."""
        return key in self.order or key in self.reading

    def touch(self, key: bytes) -> None:
        """Note a use of a block: it is evicted last of all. One that is being read gets there when that ends."""
        if key in self.order:
            self.order.move_to_end(key)

    def store(self, key: bytes) -> list[TierEvent]:
        """Let a block land, and tell what happened. A full tier evicts its oldest, or drops this one if all is read."""
        if len(self.order) + len(self.reading) < self.capacity:
            evicted = []
        elif self.order:
            evicted = [Removed("host", self.order.popitem(last=False)[0])]
        else:
            return []
        self.order[key] = None
        return [*evicted, Stored("host", key)]

    def begin_read(self, key: bytes) -> None:
        """Keep a block while a swap-in reads it."""
        self.order.pop(key, None)
        self.reading[key] = self.reading.get(key, 0) + 1

    def end_read(self, key: bytes) -> None:
        """Let a block go that a swap-in has read; when nobody reads it any more, it is the one used last."""
        self.reading[key] -= 1
        if not self.reading[key]:
            del self.reading[key]
            self.order[key] = None

"""Blocks in host memory, by key: the store behind a connector that is fast and forgets at exit (H5).

Unlike ``host_tier`` and the host's pool of ``offload`` it knows no slots of equal size: blocks of groups whose blocks
differ in bytes lie side by side, and the capacity is in bytes.
"""

from dataclasses import dataclass

from .lru_index import IndexSnapshot, LruIndex


@dataclass(frozen=True, slots=True)
class HostStoreSnapshot:
    """The whole observable state of a host store."""

    index: IndexSnapshot
    """Keys, sizes, order and pins."""
    sizes: dict[bytes, int]
    """How many bytes of each key are really there."""


class HostStore:
    """Contents by key; when room is needed, what was used least recently goes first, pinned ones never (O5, O12).

    Each method is one step. An illegal call raises ``RefusedError`` and changes nothing.
    """

    __slots__ = ("_contents", "_index")

    def __init__(self, capacity: int) -> None:
        """Make an empty store of ``capacity`` bytes."""
        self._index = LruIndex(capacity)
        self._contents: dict[bytes, bytes] = {}

    def __contains__(self, key: object) -> bool:
        """Tell whether the content of ``key`` is there. Nothing changes."""
        return key in self._contents

    def fits(self, content_bytes: int) -> bool:
        """Tell whether a content of that length could be kept if nothing else were."""
        return self._index.fits(content_bytes)

    def put(self, key: bytes, content: bytes) -> bool:
        """Keep ``content`` as the one used last; tell whether it is kept. One that is there is only touched.

        ``False``, and nothing changed, when pinned contents leave too little room. Refused when it could never fit.
        """
        if key in self._contents:
            self._index.touch(key)
            return True
        evicted = self._index.add(key, len(content))
        if evicted is None:
            return False
        for victim in evicted:
            del self._contents[victim]
        self._contents[key] = content
        self._index.unpin(key)
        return True

    def load(self, key: bytes) -> bytes | None:
        """Return the content of ``key`` and note its use; ``None`` when it is not there."""
        content = self._contents.get(key)
        if content is not None:
            self._index.touch(key)
        return content

    def pin(self, key: bytes) -> bool:
        """Keep the content of ``key`` until ``unpin``; pins count. ``False``, and nothing changed: it is not there."""
        if key not in self._contents:
            return False
        self._index.pin(key)
        return True

    def unpin(self, key: bytes) -> None:
        """Take one pin. Refused when there is none."""
        self._index.unpin(key)

    def snapshot(self) -> HostStoreSnapshot:
        """Collect the whole observable state."""
        return HostStoreSnapshot(self._index.snapshot(), {key: len(content) for key, content in self._contents.items()})

"""The prefix-cache map: which blocks carry which keys (P5).

Both directions keep the order of registration. One block may carry several keys (a partly filled block is registered
at several lengths) and one key may be carried by several blocks (two requests computed the same prefix at the same
time; nothing is de-duplicated).
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from ..errors import RefusedError


class PrefixCache:
    """A many-to-many map between keys and block ids, O(1) per registration, per removal of one pair, and per lookup.

    Nearly every key has one copy. That copy is stored as a bare id; an ordered set is made only for the second one.
    The set is an ``OrderedDict`` and not a ``dict``: the first entry of a ``dict`` costs a scan over all entries that
    were deleted before it, which would make evicting n copies of one key quadratic.
    """

    __slots__ = ("_blocks_of", "_keys_of")

    def __init__(self) -> None:
        """Make an empty map."""
        self._blocks_of: dict[bytes, int | OrderedDict[int, None]] = {}
        self._keys_of: dict[int, list[bytes]] = {}

    def __len__(self) -> int:
        """Return the number of keys for which a lookup succeeds."""
        return len(self._blocks_of)

    def __contains__(self, key: object) -> bool:
        """Tell whether a lookup of ``key`` succeeds."""
        return key in self._blocks_of

    def lookup(self, key: bytes) -> int | None:
        """Return the block that registered ``key`` first among those that still carry it (P5), or ``None``."""
        entry = self._blocks_of.get(key)
        if entry is None or isinstance(entry, int):
            return entry
        return next(iter(entry))

    def add(self, block: int, key: bytes) -> bool:
        """Let ``block`` carry ``key``; tell whether it is the first copy. Refused when it carries it already."""
        blocks_of = self._blocks_of
        entry = blocks_of.get(key)
        if entry is None:
            blocks_of[key] = block
        elif isinstance(entry, int):
            if entry == block:
                raise RefusedError(f"block {block} already carries the key {key.hex()}")
            blocks_of[key] = OrderedDict(((entry, None), (block, None)))
        else:
            if block in entry:
                raise RefusedError(f"block {block} already carries the key {key.hex()}")
            entry[block] = None
        keys = self._keys_of.get(block)
        if keys is None:
            self._keys_of[block] = [key]
        else:
            keys.append(key)
        return entry is None

    def remove_block(self, block: int) -> list[bytes]:
        """Take all keys off ``block``; return those that lost their last copy by it, in order of registration."""
        keys = self._keys_of.pop(block, None)
        if keys is None:
            return []
        blocks_of = self._blocks_of
        gone: list[bytes] = []
        for key in keys:
            entry = blocks_of[key]
            if isinstance(entry, int):
                del blocks_of[key]
                gone.append(key)
                continue
            del entry[block]
            if len(entry) == 1:
                blocks_of[key] = next(iter(entry))
        return gone

    def clear(self) -> None:
        """Forget every key."""
        self._blocks_of.clear()
        self._keys_of.clear()

    def has_keys(self, block: int) -> bool:
        """Tell whether ``block`` carries any key."""
        return block in self._keys_of

    def keys_of(self, block: int) -> Sequence[bytes]:
        """Return the keys of ``block`` in order of registration."""
        return tuple(self._keys_of.get(block, ()))

    @property
    def keyed_blocks(self) -> Mapping[int, Sequence[bytes]]:
        """The live map from each block that carries a key to its keys. Read only; for the pool's inner loops."""
        return self._keys_of

    def copies(self) -> dict[bytes, tuple[int, ...]]:
        """Return, for observers, the blocks of every key in order of registration."""
        return {key: (entry,) if isinstance(entry, int) else tuple(entry) for key, entry in self._blocks_of.items()}

"""What may be stored of a request whose layers come in groups with blocks of different sizes (H1, H2, H3).

Storing goes by chunks. A group whose block is larger than a chunk contributes to every chunk if chunks divide its
block, and whole blocks else; so the tokens that a number of chunks covers differ from group to group. What can be
loaded again is the longest prefix at which all of them can go on.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Literal

GroupKind = Literal["full", "window", "mamba"]
"""What a group's layers read of the past: all of it, a sliding window, or one recurrent state."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share one kind of block table.

    Raises:
        ValueError: for an unknown kind, a block of no tokens, or a window that is missing or out of place.
    """

    block: int
    """Tokens per block."""
    kind: GroupKind
    """What the layers read of the past."""
    window: int = 0
    """Tokens in the sliding window; 0 for the other kinds."""

    def __post_init__(self) -> None:
        if self.kind not in ("full", "window", "mamba"):
            raise ValueError(f"a group is 'full', 'window' or 'mamba', not {self.kind!r}")
        if self.block < 1:
            raise ValueError(f"a block holds at least one token, got {self.block}")
        if (self.window >= 1) != (self.kind == "window") or self.window < 0:
            raise ValueError(f"a window of {self.window} tokens means nothing to a group of kind {self.kind!r}")

    def first_needed(self, tokens: int) -> int:
        """Return the first token whose KV a request of ``tokens`` computed tokens needs to go on (H4).

        Full attention needs all; a window of W tokens the last W - 1, for it holds the token that is computed next as
        well (D7); and mamba the state behind the last token: to the block table that is the last token itself.
        """
        if self.kind == "full":
            return 0
        return max(0, tokens - (self.window - 1 if self.kind == "window" else 1))


class HybridPlanner:
    """How many chunks tokens fill, and which prefix chunks give back, over groups of several block sizes.

    For all ``t`` and ``k``: ``prefix(chunks_for(t)) <= t``, ``chunks_for(prefix(k)) <= k``, and both are monotone (H2).
    All that the sizes determine is computed once, at construction.
    """

    __slots__ = ("boundary", "chunk", "first_storable", "groups", "hash_block", "units")

    def __init__(
        self,
        hash_block: int,
        chunk: int,
        groups: Sequence[Group],
        *,
        offload_block: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """Plan for ``groups``, stored in chunks of ``chunk`` tokens, with a key every ``hash_block`` tokens.

        Args:
            hash_block: tokens per key.
            chunk: tokens per chunk, a multiple of ``hash_block``.
            groups: the groups, at least one; their blocks are multiples of ``hash_block``.
            offload_block: tokens per block of the store, where it is configured: a multiple of every group's block.
            max_tokens: the length of the longest request, where it is known. If nothing can ever be stored of one so
                long, that is said here and now, by a ``RuntimeWarning`` (H3).

        Raises:
            ValueError: for sizes that are not positive, or not the multiples that they have to be (H1).
        """
        if hash_block < 1 or chunk < 1:
            raise ValueError(f"a hash block and a chunk hold tokens, got {hash_block} and {chunk}")
        if chunk % hash_block:
            raise ValueError(f"a chunk of {chunk} tokens is no multiple of the hash block of {hash_block}")
        check_blocks(hash_block, groups)
        if offload_block is not None:
            _check_offload_block(offload_block, groups)
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"the longest request has at least one token, got {max_tokens}")
        self.hash_block = hash_block
        self.chunk = chunk
        self.groups = tuple(groups)
        self.units = tuple(group.block if group.block <= chunk or group.block % chunk else chunk for group in groups)
        """The unit of each group: it covers whole units of tokens only."""
        states = (unit for unit, group in zip(self.units, self.groups, strict=True) if group.kind == "mamba")
        self.boundary = lcm(hash_block, *states)
        """Every group has a usable state at the multiples of this that it covers, and nowhere else."""
        least = max(-(-self.boundary // unit) * unit for unit in self.units)
        self.first_storable = -(-least // chunk)
        """The least number of chunks that gives a prefix."""
        if max_tokens is not None and not self.can_store(max_tokens):
            warnings.warn(self._nothing_storable(max_tokens), RuntimeWarning, stacklevel=2)

    def chunks_for(self, tokens: int) -> int:
        """Return how many chunks ``tokens`` tokens fill (H2); one that they do not fill does not count."""
        _check_count(tokens)
        return tokens // self.chunk

    def covered(self, group: int, chunks: int) -> int:
        """Return how many tokens the group with this index covers when ``chunks`` chunks are stored (H2)."""
        _check_count(chunks)
        unit = self.units[group]
        return chunks * self.chunk // unit * unit

    def prefix(self, chunks: int) -> int:
        """Return how many tokens ``chunks`` chunks give back: the longest prefix at which every group can go on (H2).

        That is the greatest multiple of ``boundary`` that all groups cover. Attention can go on at every key; a mamba
        group has a state only at multiples of its unit.
        """
        _check_count(chunks)
        tokens = chunks * self.chunk
        return min(tokens // unit * unit for unit in self.units) // self.boundary * self.boundary

    def can_store(self, max_tokens: int) -> bool:
        """Tell whether a request of ``max_tokens`` tokens fills enough chunks to give any prefix back (H3)."""
        return self.chunks_for(max_tokens) >= self.first_storable

    def _nothing_storable(self, max_tokens: int) -> str:
        """Return what is wrong with this configuration, and what would do."""
        wrong = (
            f"nothing can ever be stored: with chunks of {self.chunk} tokens the first prefix takes "
            f"{self.first_storable} of them, and max_tokens is {max_tokens}; "
        )
        enough = f"a max_tokens of {self.first_storable * self.chunk} would do"
        # Chunks as small as the hash block divide every block, so that every group can go on at every key.
        smaller = f", or a chunk of {self.hash_block}" if max_tokens >= self.hash_block else ""
        return wrong + enough + smaller


def check_blocks(hash_block: int, groups: Sequence[Group]) -> None:
    """Raise ``ValueError`` unless there are groups and their blocks are multiples of ``hash_block`` (H1)."""
    if not groups:
        raise ValueError("there is no group: a model has at least one")
    for index, group in enumerate(groups):
        if group.block % hash_block:
            raise ValueError(
                f"the block of group {index}, {group.block} tokens, is no multiple of the hash block of {hash_block}"
            )


def _check_offload_block(offload_block: int, groups: Sequence[Group]) -> None:
    """Raise ``ValueError`` unless a block of the store holds whole blocks of every group."""
    if offload_block < 1:
        raise ValueError(f"an offload block holds at least one token, got {offload_block}")
    for index, group in enumerate(groups):
        if offload_block % group.block:
            raise ValueError(
                f"an offload block of {offload_block} tokens is no multiple of group {index}'s block of {group.block}"
            )


def _check_count(count: int) -> None:
    """Refuse counts that mean nothing."""
    if count < 0:
        raise ValueError(f"a count of tokens or chunks must not be negative, got {count}")

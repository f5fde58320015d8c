"""What a request of a hybrid cache asks connectors for, where it goes, and what it offers them (H4, H5)."""

from collections.abc import Iterator, Sequence

from ..pool.manager import RequestId
from .cache import HybridCache
from .connector import BlockRef, Boundary


def boundaries(cache: HybridCache, chain: Sequence[bytes], computed: int, limit_tokens: int) -> list[Boundary]:
    """Return the lengths beyond ``computed`` at which a request could go on, with the keys that each takes.

    Args:
        cache: the cache; what it has, it is not asked for.
        chain: the request's chain keys, first to last.
        computed: what the device has, as ``hit`` answered: a boundary of all groups.
        limit_tokens: the most tokens to load up to, by P14 one less than the request has.
    """
    limit = min(limit_tokens, len(chain) * cache.hash_block)
    return [
        Boundary(
            tokens,
            through=_keys(cache, chain, _full_groups(cache), tokens - cache.boundary, tokens),
            at=_keys(cache, chain, _other_groups(cache), computed, tokens),
        )
        for tokens in range(computed + cache.boundary, limit + 1, cache.boundary)
    ]


def load_targets(
    cache: HybridCache, request: RequestId, chain: Sequence[bytes], computed: int, tokens: int
) -> list[BlockRef]:
    """Return where a load from ``computed`` to ``tokens`` tokens further goes.

    The tables must cover that: by ``allocate`` with ``loaded`` they get blocks just there.
    """
    tables = cache.tables(request)
    groups = range(len(cache.groups))
    return [
        BlockRef(cache.key(index, chain, position), tables[index][position])
        for index, position in _needed(cache, groups, computed, computed + tokens)
    ]


def offers(cache: HybridCache, request: RequestId, chain: Sequence[bytes], tokens: int) -> list[BlockRef]:
    """Return the full blocks of a request's first ``tokens`` tokens, computed ones, group by group.

    What a group has given up is left out.
    """
    return [
        BlockRef(cache.key(index, chain, position), block)
        for index, (table, group) in enumerate(zip(cache.tables(request), cache.groups, strict=True))
        for position, block in enumerate(table[: tokens // group.block])
        if block != cache.pool.null_block
    ]


def _full_groups(cache: HybridCache) -> list[int]:
    """Return the groups that need every block of a prefix."""
    return [index for index, group in enumerate(cache.groups) if group.kind == "full"]


def _other_groups(cache: HybridCache) -> list[int]:
    """Return the groups that need only the end of a prefix."""
    return [index for index, group in enumerate(cache.groups) if group.kind != "full"]


def _keys(
    cache: HybridCache, chain: Sequence[bytes], groups: Sequence[int], computed: int, tokens: int
) -> tuple[bytes, ...]:
    """Return the keys of what some groups need of ``tokens`` tokens beyond ``computed``."""
    return tuple(cache.key(index, chain, position) for index, position in _needed(cache, groups, computed, tokens))


def _needed(cache: HybridCache, groups: Sequence[int], computed: int, tokens: int) -> Iterator[tuple[int, int]]:
    """Yield (group, position) of the blocks beyond ``computed`` that groups need to go on from ``tokens`` tokens."""
    for index in groups:
        group = cache.groups[index]
        first = max(group.first_needed(tokens), computed) // group.block
        for position in range(first, tokens // group.block):
            yield index, position

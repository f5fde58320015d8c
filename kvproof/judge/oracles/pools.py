"""What a state shows of a pool."""

from ..record import PoolState, State

__all__ = ["differ", "entries", "shown"]


def shown(state: State, tier: str) -> PoolState:
    """What a state shows of a tier; one that it leaves out shows nothing."""
    return state.pools.get(tier) or PoolState()


def differ(before: object, after: object) -> bool:
    """Both are shown, and they are not the same."""
    return None not in (before, after) and before != after


def entries(pool: PoolState) -> dict[tuple[int, int], set[int]]:
    """The blocks that are cached under each key of each group."""
    return {(k, g): set(blocks) for k, g, blocks in pool.cached or () if blocks}

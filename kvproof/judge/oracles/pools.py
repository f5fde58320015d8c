"""What a state shows of a pool, and what an operation names of it."""

from ..record import PoolState, State, Step

__all__ = ["differ", "entries", "evicted_by", "shown"]


def shown(state: State, tier: str) -> PoolState:
    """What a state shows of a tier; one that it leaves out shows nothing."""
    return state.pools.get(tier) or PoolState()


def differ(before: object, after: object) -> bool:
    """Both are shown, and they are not the same."""
    return None not in (before, after) and before != after


def entries(pool: PoolState) -> dict[tuple[int, int], set[int]]:
    """The blocks that are cached under each key of each group."""
    return {(k, g): set(blocks) for k, g, blocks in pool.cached or () if blocks}


def evicted_by(step: Step) -> list[int] | None:
    """The blocks that an evict names, by its ``block`` or by a list that it answers; None where it names none: a number
    that is answered says how many they were."""
    named = [step.args["block"]] if "block" in step.args else step.result
    return named if isinstance(named, list) and all(isinstance(block, int) for block in named) else None

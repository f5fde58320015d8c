"""How many tokens a step takes of a request with mamba layers, and how many blocks that asks for (H7).

A mamba layer leaves a state that others can go on from where a step ends, so steps end at block boundaries as long as
there is a further boundary to reach. All functions are pure and raise ``ValueError`` for counts that mean nothing.
"""

from ..pool.blocks import blocks_for


def next_tokens(*, computed: int, external: int, total: int, budget: int, block: int, loading: bool) -> int:
    """Return how many tokens the next step computes of one request.

    The request stands at ``start = computed + external``: whether a token was computed here or loaded makes no
    difference to alignment. Let ``last`` be the last multiple of ``block`` up to ``total``. Then a step takes

    * nothing while a load is in flight, whatever the budget;
    * from ``start >= last`` on, the final piece: ``min(budget, total - start)`` tokens. No boundary is left to end at;
    * before it, what brings it to the greatest multiple of ``block`` that is at most ``min(start + budget, last)``, or
      nothing if there is none beyond ``start``. So it never runs past ``last``, whose state is the most useful one.

    A ``start`` within a block is brought to its end first. With ``budget >= block`` every step that does not load takes
    at least one token until ``total`` is reached. A smaller budget may take nothing: that costs the request this step;
    an engine whose steps are always smaller than a block makes no progress with it, and must not be set up so.

    Args:
        computed: tokens computed on this device, or found there.
        external: tokens loaded from elsewhere, behind those.
        total: tokens that the request has now.
        budget: the most tokens that the step has room for.
        block: tokens per mamba block.
        loading: whether a load of the request is in flight.
    """
    start = computed + external
    if min(computed, external, budget) < 0:
        raise ValueError(f"counts must not be negative: computed {computed}, external {external}, budget {budget}")
    if start > total:
        raise ValueError(f"{computed} computed and {external} external tokens are more than the request's {total}")
    if block < 1:
        raise ValueError(f"a block holds at least one token, got {block}")
    if loading:
        return 0
    last = total // block * block
    if start >= last:
        return min(budget, total - start)
    end = min(start + budget, last) // block * block
    return max(0, end - start)


def new_blocks(demand_tokens: int, held_blocks: int, block: int) -> int:
    """Return how many more blocks ``demand_tokens`` tokens need, of ``block`` tokens each.

    A demand below what is held is legal, and asks for none.
    """
    if held_blocks < 0:
        raise ValueError(f"nobody holds {held_blocks} blocks")
    return max(0, blocks_for(demand_tokens, block) - held_blocks)

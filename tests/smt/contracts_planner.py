"""Contracts that CrossHair must not be able to break: the planner of hybrid groups (H2) and the aligned split (H7).

Token and chunk counts are any integers. Sizes are any integers too for one group of attention: every group covers a
prefix by itself. With several groups, and mamba among them, they are those of ``PLANNERS``, because a least common
multiple is computed for numbers, not for unknowns, and with more unknown sizes Z3 decides by luck.
They are run by ``test_contracts_planner.py``.
"""

from kvproof.refimpl.hybrid.aligned_split import new_blocks, next_tokens
from kvproof.refimpl.hybrid.planner import Group, HybridPlanner

PLANNERS = [
    HybridPlanner(hash_block, chunk, [*(Group(block, "mamba") for block in states), Group(attention, "full")])
    for hash_block, chunk, states, attention in [
        (1, 1, (3,), 2),
        (1, 2, (3,), 1),
        (1, 2, (4,), 3),
        (1, 3, (2,), 5),
        (1, 4, (2, 3), 1),
        (2, 4, (6, 10), 2),
        (2, 4, (8,), 6),
        (3, 6, (9, 12), 3),
        (16, 256, (1056,), 16),
    ]
]
"""Planners of every relation between a chunk and the blocks: equal, a divisor, a multiple, neither."""

BLOCKS = (1, 2, 3, 8, 528)
"""Mamba blocks."""


# Any sizes, one group of attention.


def chunks_counted_are_filled(chunk: int, block: int, tokens: int) -> int:
    """S19: the chunks that are counted for some tokens give at most those back.

    pre: min(chunk, block) >= 1 and tokens >= 0
    post: 0 <= _ <= tokens
    """
    planner = HybridPlanner(1, chunk, [Group(block, "full")])
    return planner.prefix(planner.chunks_for(tokens))


def a_prefix_fills_no_more_chunks_than_gave_it(chunk: int, block: int, chunks: int) -> int:
    """The way back: from chunks to their prefix and to chunks again never adds one.

    pre: min(chunk, block) >= 1 and chunks >= 0
    post: 0 <= _ <= chunks
    """
    planner = HybridPlanner(1, chunk, [Group(block, "full")])
    return planner.chunks_for(planner.prefix(chunks))


def more_tokens_fill_no_fewer_chunks(chunk: int, tokens: int) -> bool:
    """Counting is monotone.

    pre: chunk >= 1 and tokens >= 0
    post: _
    """
    planner = HybridPlanner(1, chunk, [Group(1, "full")])
    return planner.chunks_for(tokens) <= planner.chunks_for(tokens + 1)


def more_chunks_give_no_shorter_prefix(chunk: int, block: int, chunks: int) -> bool:
    """Prefixes are monotone.

    pre: min(chunk, block) >= 1 and chunks >= 0
    post: _
    """
    planner = HybridPlanner(1, chunk, [Group(block, "full")])
    return planner.prefix(chunks) <= planner.prefix(chunks + 1)


# The sizes of PLANNERS, with mamba.


def chunks_counted_are_filled_with_states(which: int, tokens: int) -> int:
    """S19, with mamba groups.

    pre: 0 <= which < len(PLANNERS) and tokens >= 0
    post: 0 <= _ <= tokens
    """
    planner = PLANNERS[which]
    return planner.prefix(planner.chunks_for(tokens))


def a_prefix_with_states_fills_no_more_chunks(which: int, chunks: int) -> int:
    """The way back, with mamba groups.

    pre: 0 <= which < len(PLANNERS) and chunks >= 0
    post: 0 <= _ <= chunks
    """
    planner = PLANNERS[which]
    return planner.chunks_for(planner.prefix(chunks))


def more_chunks_give_no_shorter_prefix_with_states(which: int, chunks: int) -> bool:
    """Prefixes are monotone, with mamba groups.

    pre: 0 <= which < len(PLANNERS) and chunks >= 0
    post: _
    """
    return PLANNERS[which].prefix(chunks) <= PLANNERS[which].prefix(chunks + 1)


def every_group_goes_on_at_a_prefix(which: int, chunks: int) -> bool:
    """At a prefix every group has a usable state, and it covers that much.

    pre: 0 <= which < len(PLANNERS) and chunks >= 0
    post: _
    """
    planner = PLANNERS[which]
    prefix = planner.prefix(chunks)
    return prefix % planner.hash_block == 0 and all(
        prefix <= planner.covered(index, chunks) and (group.kind != "mamba" or prefix % planner.units[index] == 0)
        for index, group in enumerate(planner.groups)
    )


def the_first_storable_chunk_is_the_first(which: int, chunks: int) -> bool:
    """H3: a prefix comes out of that many chunks and more, and of none fewer.

    pre: 0 <= which < len(PLANNERS) and chunks >= 0
    post: _
    """
    return (PLANNERS[which].prefix(chunks) > 0) == (chunks >= PLANNERS[which].first_storable)


# The aligned split.


def a_step_with_room_for_a_block_makes_progress(start: int, total: int, budget: int, block: int) -> int:
    """H7: at least a token, at most the budget and what is left, for any sizes.

    pre: 0 <= start < total and 1 <= block <= budget
    post: 0 < _ <= min(budget, total - start)
    """
    return next_tokens(computed=start, external=0, total=total, budget=budget, block=block, loading=False)


def a_step_ends_at_a_boundary(which: int, start: int, total: int, budget: int) -> bool:
    """H7: while a boundary is left to reach, a step takes nothing or ends at one, and never past the last one.

    pre: 0 <= which < len(BLOCKS) and 0 <= start <= total and budget >= 0
    post: _
    """
    block = BLOCKS[which]
    end = start + next_tokens(computed=start, external=0, total=total, budget=budget, block=block, loading=False)
    last = total // block * block
    return start >= last or end == start or (end <= last and end % block == 0)


def where_tokens_came_from_makes_no_difference(which: int, computed: int, external: int, budget: int) -> bool:
    """H7: a request with external tokens is aligned on the total count.

    pre: 0 <= which < len(BLOCKS) and min(computed, external, budget) >= 0
    post: _
    """
    block, start = BLOCKS[which], computed + external
    total = start + 2 * block
    split = next_tokens(computed=computed, external=external, total=total, budget=budget, block=block, loading=False)
    return split == next_tokens(computed=start, external=0, total=total, budget=budget, block=block, loading=False)


def a_load_in_flight_takes_no_tokens(computed: int, external: int, total: int, budget: int, block: int) -> int:
    """H7: whatever the budget.

    pre: min(computed, external, budget) >= 0 and computed + external <= total and block >= 1
    post: _ == 0
    """
    return next_tokens(computed=computed, external=external, total=total, budget=budget, block=block, loading=True)


def what_is_held_and_new_suffices_and_nothing_is_idle(demand: int, held: int, block: int) -> int:
    """H7: the least number of new blocks; none when what is held is enough.

    pre: demand >= 0 and held >= 0 and block >= 1
    post: (held + _) * block >= demand and (_ == 0 or (_ > 0 and (held + _ - 1) * block < demand))
    """
    return new_blocks(demand, held, block)

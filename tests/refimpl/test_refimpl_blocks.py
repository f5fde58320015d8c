"""Block arithmetic, over every small size (P14 for the limit of a lookup)."""

import pytest

from kvproof.refimpl.pool.blocks import blocks_for, filled_slots, full_blocks, lookup_limit, position_of, token_index

by_block_size = pytest.mark.parametrize("block_tokens", range(1, 9))


@by_block_size
def test_the_arithmetic_agrees_with_counting(block_tokens):
    for num_tokens in range(40):
        check_against_counting(num_tokens, block_tokens)


def check_against_counting(num_tokens: int, block_tokens: int) -> None:
    """Lay the tokens out one by one, and count."""
    places = [position_of(token, block_tokens) for token in range(num_tokens)]
    assert places == sorted(set(places))
    assert [token_index(position, slot, block_tokens) for position, slot in places] == list(range(num_tokens))
    used = [position for position, _ in places]
    assert blocks_for(num_tokens, block_tokens) == len(set(used))
    assert full_blocks(num_tokens, block_tokens) == sum(used.count(position) == block_tokens for position in set(used))
    for position in range(8):
        assert filled_slots(num_tokens, position, block_tokens) == used.count(position)


@by_block_size
def test_p14_the_limit_leaves_the_last_token_and_nothing_more_than_it_must(block_tokens):
    for num_tokens in range(40):
        limit = lookup_limit(num_tokens, block_tokens)
        assert limit >= 0
        assert limit * block_tokens <= max(num_tokens - 1, 0)
        assert (limit + 1) * block_tokens > num_tokens - 1


@pytest.mark.parametrize("function", [blocks_for, full_blocks, lookup_limit, position_of])
@pytest.mark.parametrize("arguments", [(-1, 4), (4, 0), (4, -1)])
def test_what_means_nothing_is_refused(function, arguments):
    with pytest.raises(ValueError, match=r"at least one token|not be negative"):
        function(*arguments)


def test_a_slot_outside_its_block_is_refused():
    with pytest.raises(ValueError, match="slot 4"):
        token_index(0, 4, 4)

"""Block arithmetic, over every small size (P14 for the limit of a lookup)."""

from inspect import isfunction, signature

import pytest

from kvproof.refimpl.pool import blocks
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


FUNCTIONS = {name: function for name, function in vars(blocks).items() if isfunction(function) and name[0] != "_"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_means_nothing_is_refused(name):
    """Any count that is negative, and a block of no tokens; each is the only thing that is wrong."""
    function = FUNCTIONS[name]
    *counts, _ = signature(function).parameters
    for wrong in counts:
        with pytest.raises(ValueError, match=r"not be negative|at least the token itself|slot -1"):
            function(**dict.fromkeys(counts, 1) | {wrong: -1}, block_tokens=4)
    for block_tokens in (0, -1):
        with pytest.raises(ValueError, match="at least one token"):
            function(*[0 if count == "slot" else 1 for count in counts], block_tokens)


def test_a_slot_outside_its_block_is_refused():
    with pytest.raises(ValueError, match="slot 4"):
        token_index(0, 4, 4)

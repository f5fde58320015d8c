"""The prefix-cache map (P5): both directions always agree with the pairs registered, in order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.pool.prefix_cache import PrefixCache

STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([b"a", b"b", b"c", None])), max_size=25)


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_it_is_a_list_of_pairs(steps):
    """Model: the list of registered (block, key), oldest first. A step without key takes all keys off its block."""
    cache = PrefixCache()
    pairs: list[tuple[int, bytes]] = []
    for block, key in steps:
        if key is None:
            rest = [pair for pair in pairs if pair[0] != block]
            left = {k for _, k in rest}
            assert cache.remove_block(block) == [k for b, k in pairs if b == block and k not in left]
            pairs = rest
        elif (block, key) in pairs:
            with pytest.raises(RefusedError):
                cache.add(block, key)
        else:
            assert cache.add(block, key) == (key not in {k for _, k in pairs})
            pairs.append((block, key))
        for name in (b"a", b"b", b"c"):
            blocks = [b for b, k in pairs if k == name]
            assert cache.lookup(name) == (blocks[0] if blocks else None)
            assert (name in cache) == bool(blocks)
            assert cache.copies().get(name, ()) == tuple(blocks)
        for number in range(4):
            assert list(cache.keys_of(number)) == [k for b, k in pairs if b == number]
            assert cache.has_keys(number) == bool(cache.keys_of(number))
        assert len(cache) == len({k for _, k in pairs})
    cache.clear()
    assert cache.copies() == {}
    assert cache.keyed_blocks == {}

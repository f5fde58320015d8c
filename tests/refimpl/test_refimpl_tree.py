"""The prefix tree's cache, where random runs seldom come."""

from kvproof.refimpl.tree.cache import RadixCache


def test_p10_a_request_that_leaves_frees_its_own_pages_last_first():
    cache = RadixCache(4, 2)
    assert cache.admit("r", range(6), prompt_tokens=6)
    assert cache.allocate("r", 3) == [0, 1, 2]
    assert cache.check_in("r", 1) == 0
    cache.leave("r")
    assert list(cache.free) == [3, 2, 1]  # Page 0 is the tree's.

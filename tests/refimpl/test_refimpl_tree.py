"""The prefix tree's cache, where random runs seldom come."""

from kvproof.refimpl.events import BlockRemoved
from kvproof.refimpl.tree.cache import RadixCache
from kvproof.refimpl.tree.radix import RadixTree


def test_p10_a_request_that_leaves_frees_its_own_pages_last_first():
    cache = RadixCache(4, 2)
    assert cache.admit("r", range(6), prompt_tokens=6)
    assert cache.allocate("r", 3) == [0, 1, 2]
    assert cache.check_in("r", 1) == 0
    cache.leave("r")
    assert list(cache.free) == [3, 2, 1]  # Page 0 is the tree's.


def test_a_request_may_need_every_page_that_there_is():
    cache = RadixCache(4, 2)
    assert not cache.admit("larger", range(9), prompt_tokens=9)
    assert cache.admit("r", range(8), prompt_tokens=8)
    assert cache.allocate("r", 4) == [0, 1, 2, 3]


def test_r6_what_was_looked_for_last_is_evicted_last_though_nobody_locked_it():
    tree = RadixTree()
    first, second = tree.insert([b"a"], [0])[0], tree.insert([b"b"], [1])[0]
    assert tree.match([b"a"]) == (first, [0])
    assert tree.order() == [second, first]
    assert tree.evict(1) == [1]


def test_r8_a_leaf_that_is_evicted_is_reported_last_page_first():
    tree = RadixTree()
    tree.insert([b"a", b"b", b"c"], [0, 1, 2])
    tree.take_events()
    assert tree.evict(1) == [2, 1, 0]
    assert tree.take_events() == [BlockRemoved(b"c"), BlockRemoved(b"b"), BlockRemoved(b"a")]


def test_r5_what_a_request_leaves_behind_at_its_end_is_found_by_the_next():
    cache = RadixCache(4, 2)
    for request, found in (("first", 0), ("second", 2)):
        assert cache.admit(request, range(5), prompt_tokens=5)
        assert cache.hit(request) == found
        assert cache.allocate(request, 3 - found) is not None
        cache.finish(request)
    assert sorted(cache.free) == [2, 3]

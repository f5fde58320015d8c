"""Contents in host memory, and the order in which they go: against plain lists (O5, O12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid.host_store import HostStore
from kvproof.refimpl.hybrid.lru_index import LruIndex

KEYS = [b"a", b"b", b"c", b"d"]


def content(key: bytes, size: int) -> bytes:
    return key * size


class PlainStore:
    """What a host store must do, the slow way: contents in the order of their last use, and pins."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.contents: dict[bytes, bytes] = {}
        self.pins: dict[bytes, int] = {}

    def put(self, key: bytes, data: bytes) -> bool:
        if key in self.contents:
            self.use(key)
            return True
        if len(data) + sum(len(self.contents[kept]) for kept in self.pins) > self.capacity:
            return False
        while len(data) + sum(map(len, self.contents.values())) > self.capacity:
            del self.contents[next(kept for kept in self.contents if kept not in self.pins)]
        self.contents[key] = data
        return True

    def load(self, key: bytes) -> bytes | None:
        if key in self.contents:
            self.use(key)
        return self.contents.get(key)

    def use(self, key: bytes) -> None:
        if key not in self.pins:  # While it is pinned its place does not matter; the last unpin is the use.
            self.contents[key] = self.contents.pop(key)

    def pin(self, key: bytes) -> bool:
        if key in self.contents:
            self.pins[key] = self.pins.get(key, 0) + 1
        return key in self.contents

    def unpin(self, key: bytes) -> None:
        if key not in self.pins:
            raise RefusedError("not pinned")
        self.pins[key] -= 1
        if not self.pins[key]:
            del self.pins[key]
            self.use(key)


CALLS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 9)),
    st.tuples(st.sampled_from(["load", "pin", "unpin"]), st.sampled_from(KEYS)),
)


def answer_of(call):
    """What a call answers; a refusal is an answer too."""
    try:
        return call()
    except RefusedError:
        return "refused"


@given(st.lists(CALLS, max_size=40))
def test_it_does_what_plain_lists_do(calls):
    store, plain = HostStore(9), PlainStore(9)
    for name, key, *size in calls:
        data = [content(key, *size)] if size else []
        got = answer_of(lambda: getattr(store, name)(key, *data))  # noqa: B023 - called at once
        assert got == answer_of(lambda: getattr(plain, name)(key, *data))  # noqa: B023
        state = store.snapshot()
        assert dict(state.index.pinned) == {kept: (len(plain.contents[kept]), n) for kept, n in plain.pins.items()}
        assert [kept for kept, _ in state.index.idle] == [kept for kept in plain.contents if kept not in plain.pins]
        assert state.sizes == {kept: len(data) for kept, data in plain.contents.items()}
        assert state.index.used == sum(state.sizes.values()) <= 9
        assert all((kept in store) == (kept in plain.contents) for kept in KEYS)


def test_a_lookup_is_no_use():
    store = HostStore(2)
    assert store.put(b"a", b"1")
    assert store.put(b"b", b"2")
    assert b"a" in store
    assert store.put(b"c", b"3")
    assert store.load(b"a") is None
    assert store.load(b"b") == b"2"


def test_o12_no_room_beside_what_is_pinned_changes_nothing():
    store = HostStore(3)
    store.put(b"a", b"11")
    store.put(b"b", b"2")
    assert store.pin(b"a")
    before = store.snapshot()
    assert not store.put(b"c", b"33")
    assert store.snapshot() == before
    assert store.put(b"c", b"3")
    assert b"b" not in store


def test_what_could_never_fit_is_refused_and_told_beforehand():
    store = HostStore(3)
    assert store.fits(3)
    assert not store.fits(4)
    store.put(b"a", b"1")
    before = store.snapshot()
    with pytest.raises(RefusedError, match="never fit"):
        store.put(b"b", b"4444")
    assert store.snapshot() == before
    with pytest.raises(RefusedError):
        HostStore(0)


def test_the_index_alone_refuses_what_its_owners_never_do():
    index = LruIndex(4)
    assert index.add(b"a", 2) == []
    before = index.snapshot()
    for illegal in (
        lambda: index.add(b"a", 1),
        lambda: index.touch(b"b"),
        lambda: index.pin(b"b"),
        lambda: index.unpin(b"b"),
        lambda: index.remove(b"a"),
        lambda: index.remove(b"b"),
    ):
        with pytest.raises(RefusedError):
            illegal()
        assert index.snapshot() == before
    index.unpin(b"a")
    index.remove(b"a")
    assert index.snapshot() == LruIndex(4).snapshot()


def test_an_index_of_one_byte_holds_a_content_of_one():
    """The least capacity, and a size as large as all of it, also while nothing of it is free."""
    index = LruIndex(1)
    assert index.fits(1)
    assert not index.fits(2)
    assert index.add(b"a", 1) == []
    assert index.add(b"b", 1) is None
    index.unpin(b"a")
    assert index.add(b"b", 1) == [b"a"]
    with pytest.raises(RefusedError):
        LruIndex(0)


def test_each_pin_is_taken_once():
    """A key stands aside for as many unpins as there were pins, and then can go."""
    index = LruIndex(1)
    index.add(b"a", 1)
    for more in (1, 0):  # The second time it is pinned anew, alone.
        for _ in range(more):
            index.pin(b"a")
        for left in range(more, -1, -1):
            index.unpin(b"a")
            assert index.is_pinned(b"a") == (left > 0)
        index.pin(b"a")
    index.unpin(b"a")
    assert index.add(b"b", 1) == [b"a"]

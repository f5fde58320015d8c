"""A tier that workers share (G8): each sees what had landed by its own time, whoever acts first in the program."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.timed.links import LinkModel
from kvproof.refimpl.timed.shared_tier import SharedTier

F = Fraction
A, B, C, D = (bytes([65 + at]) for at in range(4))


def shared(workers: int = 2) -> SharedTier[Fraction]:
    """A tier to which a block takes 1 s alone."""
    return SharedTier(LinkModel([F(2)], now=F(0)), workers, block_bytes=F(2))


def stored() -> SharedTier[Fraction]:
    """Worker 0 has begun to store A at 0; it is at 3 now, worker 1 at 1/2."""
    tier = shared()
    tier.store(0, A)
    tier.work(0, F(3))
    tier.work(1, F(1, 2))
    return tier


class TestSight:
    """A worker at time t sees exactly what landed at or before t."""

    def test_a_block_is_seen_when_it_has_landed(self):
        tier = stored()
        tier.catch_up(1)
        assert not tier.look(1, A)
        tier.work(1, F(1))
        assert [(landed.worker, landed.key, landed.completion.done) for landed in tier.catch_up(1)] == [(0, A, F(1))]
        assert tier.look(1, A)

    def test_who_is_ahead_waits_for_who_is_behind(self):
        """Else it would see nothing of what the other is about to store before its time."""
        tier = stored()
        before = tier.snapshot()
        assert tier.next_worker() == 1
        with pytest.raises(RefusedError, match="let 1 act first"):
            tier.catch_up(0)
        assert tier.snapshot() == before
        tier.catch_up(1)
        tier.store(1, B)
        tier.work(1, F(4))
        assert tier.next_worker() == 0
        assert [(landed.key, landed.completion.done) for landed in tier.catch_up(0)] == [(A, F(3, 2)), (B, F(2))]
        assert tier.look(0, B)

    def test_one_s_own_store_is_not_seen_before_it_has_landed(self):
        tier = shared(1)
        tier.store(0, A)
        assert not tier.look(0, A)
        tier.work(0, F(1))
        tier.catch_up(0)
        assert tier.look(0, A)

    def test_what_lands_at_this_very_time_is_seen_and_nobody_acts_before(self):
        tier = shared(1)
        tier.store(0, A)
        tier.work(0, F(1))
        tier.move(F(1))
        with pytest.raises(RefusedError, match="catch up"):
            tier.look(0, A)
        assert tier.due() == 0
        assert tier.complete().key == A
        assert tier.look(0, A)

    def test_a_look_changes_nothing(self):
        tier = stored()
        tier.catch_up(1)
        before = tier.snapshot()
        tier.look(1, A)
        tier.look(1, B)
        assert tier.snapshot() == before


class TestStores:
    """One copy of each block, on one link."""

    def test_nothing_is_stored_twice(self):
        tier = shared()
        assert tier.store(0, A) == 0
        assert tier.store(1, A) is None
        assert tier.store(0, A) is None
        for worker in (0, 1):
            tier.work(worker, F(2))
        tier.catch_up(0)
        assert tier.store(1, A) is None
        assert tier.snapshot().stores == {}

    def test_stores_share_the_link(self):
        tier = shared()
        tier.store(0, A)
        tier.store(1, B)
        assert tier.deadline() == 2
        for worker in (0, 1):
            tier.work(worker, F(9))
        assert [(landed.key, landed.worker, landed.completion.done) for landed in tier.catch_up(1)] == [
            (A, 0, F(2)),
            (B, 1, F(2)),
        ]
        assert tier.snapshot().landed == (A, B)


class TestClocks:
    """Each worker has its own, and none runs backward."""

    def test_work_never_goes_back(self):
        tier = stored()
        tier.work(0, F(2))
        assert [tier.clock(0), tier.clock(1), tier.now] == [3, F(1, 2), 0]

    def test_the_tier_s_time_never_goes_back(self):
        tier = stored()
        tier.catch_up(1)
        before = tier.snapshot()
        tier.move(F(0))
        assert tier.snapshot() == before

    def test_of_equals_the_first_is_next(self):
        assert shared(3).next_worker() == 0


REFUSED = {
    "the tier passes a worker": lambda tier: tier.move(F(3, 4)),
    "the tier goes nowhere": lambda tier: tier.move(math.nan),
    "store at another time": lambda tier: tier.store(0, B),
    "look at another time": lambda tier: tier.look(1, A),
    "complete what is not due": lambda tier: tier.complete(),
    "a worker that is none": lambda tier: tier.work(2, F(1)),
    "a worker from the end": lambda tier: tier.catch_up(-1),
    "the clock of nobody": lambda tier: tier.clock(2),
    "store for nobody": lambda tier: tier.store(2, B),
    "a worker works for ever": lambda tier: tier.work(0, math.inf),
    "a worker works until no time": lambda tier: tier.work(0, math.nan),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
def test_an_illegal_call_changes_nothing(call):
    tier = stored()
    before = tier.snapshot()
    with pytest.raises(RefusedError):
        call(tier)
    assert tier.snapshot() == before


@pytest.mark.parametrize(("workers", "link", "block_bytes"), [(0, 0, F(1)), (1, 1, F(1)), (1, 0, F(-1))])
def test_what_makes_no_sense_is_refused(workers, link, block_bytes):
    with pytest.raises(RefusedError):
        SharedTier(LinkModel([F(1)]), workers, link=link, block_bytes=block_bytes)


SCRIPTS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["store", "look"]), st.sampled_from([A, B, C, D]), st.integers(0, 12)), max_size=8
    ),
    min_size=1,
    max_size=4,
)
"""For each worker, again and again: what it does, with which block, and how long (in quarters) it works then."""


@given(SCRIPTS)
def test_a_worker_sees_exactly_what_had_landed_by_its_time(scripts):
    """Against the whole story, told afterwards: when each block landed is known, so is what each look had to see."""
    tier = shared(len(scripts))
    left = [list(script) for script in scripts]
    looks: list[tuple[Fraction, bytes, bool]] = []
    landed: dict[bytes, Fraction] = {}
    begun: dict[bytes, Fraction] = {}
    while any(left):
        worker = tier.next_worker()
        now = tier.clock(worker)
        landed.update({arrival.key: arrival.completion.done for arrival in tier.catch_up(worker)})
        assert tier.now == now
        if not left[worker]:
            tier.work(worker, now + 1)
            continue
        action, key, quarters = left[worker].pop(0)
        if action == "look":
            looks.append((now, key, tier.look(worker, key)))
        elif tier.store(worker, key) is not None:
            assert key not in begun
            begun[key] = now
        tier.work(worker, now + F(quarters, 4))
    for worker in range(len(scripts)):
        tier.work(worker, F(10**6))
    landed.update({arrival.key: arrival.completion.done for arrival in tier.catch_up(0)})
    assert landed.keys() == begun.keys()
    assert all(landed[key] - begun[key] >= 1 for key in begun)
    assert list(tier.snapshot().landed) == sorted(begun, key=lambda key: landed[key])  # stable: ties by id
    for time, key, seen in looks:
        assert seen == (key in landed and landed[key] <= time)

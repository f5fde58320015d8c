"""Device slots and a host tier in virtual time (G1, G4 to G7, P12): who has a slot, what is where, who waits."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.pool.manager import RequestId
from kvproof.refimpl.timed.host_cache import check_offload
from kvproof.refimpl.timed.links import LinkModel
from kvproof.refimpl.timed.records import Landed, Removed, Stored, TiersSnapshot
from kvproof.refimpl.timed.tiers import TimedTiers

F = Fraction
A, B, C, D, E, G = (bytes([65 + at]) for at in range(6))
DOWN, UP = F(2), F(4)


def tiers(slots: int = 3, host: int = 3, batch: int = 2) -> TimedTiers[Fraction]:
    """A worker whose blocks take 1 s down and 1/2 s up, one at a time."""
    links = LinkModel([DOWN, UP], now=F(0))
    return TimedTiers(links, slots=slots, host_blocks=host, batch=batch, block_bytes=F(2))


def compute(worker: TimedTiers[Fraction], *keys: bytes) -> list[int]:
    """Compute these blocks, and let them be idle."""
    slots = worker.allocate_many(len(keys))
    assert slots is not None
    for slot, key in zip(slots, keys, strict=True):
        worker.register(slot, key)
        worker.release(slot)
    return slots


def settle(worker: TimedTiers[Fraction]) -> list[Landed[Fraction]]:
    """Let all transfers land."""
    return worker.advance(worker.now + 1000)


def on_host(worker: TimedTiers[Fraction], *keys: bytes) -> TimedTiers[Fraction]:
    """Bring these blocks to the host, the first to be evicted first, and away from the device."""
    for key in keys:
        compute(worker, key)
        worker.make_room(worker.slots)
        settle(worker)
    worker.take_events()
    return worker


class TestSlots:
    """G1: free, used, idle; nothing else can be had."""

    def test_slots_are_used_in_order_and_come_back_at_the_tail(self):
        worker = tiers()
        assert [worker.allocate() for _ in range(4)] == [0, 1, 2, None]
        worker.release(1)
        worker.release(0)
        assert [worker.allocate(), worker.allocate()] == [1, 0]

    def test_many_or_none(self):
        worker = tiers()
        before = worker.snapshot()
        assert worker.allocate_many(4) is None
        assert worker.snapshot() == before
        assert worker.allocate_many(3) == [0, 1, 2]
        assert worker.allocate_many(0) == []

    def test_a_slot_with_a_key_is_found_used_and_idle(self):
        worker = tiers()
        worker.allocate()
        assert worker.find(A) is None
        worker.register(0, A)
        assert worker.find(A) == 0
        worker.release(0)
        assert worker.find(A) == 0
        worker.touch(0)
        assert worker.snapshot().used == {0}
        assert worker.find(A) == 0

    def test_idle_slots_are_evicted_in_the_order_of_their_release(self):
        worker = tiers(host=0)
        compute(worker, A, B, C)
        worker.touch(0)
        worker.release(0)
        assert [worker.evict() for _ in range(4)] == [1, 2, 0, None]


class TestOffload:
    """G1 and G4: what is evicted is copied in batches, and holds its slot meanwhile."""

    def test_a_slot_is_free_when_its_copy_has_ended_and_not_before(self):
        """S13: freed at the eviction, it would be handed out under the copy."""
        worker = tiers(slots=1, batch=1)
        compute(worker, A)
        worker.evict()
        assert worker.allocate() is None
        worker.ship()
        assert worker.allocate() is None
        worker.move(F(1, 2))
        assert worker.allocate() is None
        worker.move(F(1))
        assert worker.allocate() is None
        worker.complete()
        assert worker.allocate() == 0

    def test_an_evicted_block_is_found_nowhere_until_it_has_landed(self):
        worker = tiers()
        compute(worker, A)
        worker.evict()
        worker.ship()
        assert (worker.find(A), worker.on_host(A), worker.lookup([A])) == (None, False, (0, 0))
        settle(worker)
        assert (worker.find(A), worker.on_host(A), worker.lookup([A])) == (None, True, (0, 1))

    def test_a_batch_is_one_transfer_of_all_its_bytes(self):
        worker = tiers()
        compute(worker, A, B, C)
        worker.evict()
        worker.evict()
        assert worker.ship() == 0
        assert worker.ship() is None
        assert worker.deadline() == 2
        assert [(landed.cargo, landed.completion.size, landed.promoted) for landed in settle(worker)] == [
            (((0, A), (1, B)), F(4), None)
        ]

    def test_a_full_batch_has_to_be_shipped_first(self):
        worker = tiers()
        compute(worker, A, B, C)
        worker.evict()
        worker.evict()
        before = worker.snapshot()
        with pytest.raises(RefusedError, match="ship it first"):
            worker.evict()
        assert worker.snapshot() == before

    def test_slots_are_free_in_the_order_of_the_batch(self):
        worker = tiers(batch=3)
        compute(worker, A, B, C)
        worker.touch(0)
        worker.release(0)
        worker.make_room(3)
        settle(worker)
        assert worker.snapshot().free == (1, 2, 0)

    def test_what_is_on_the_host_is_not_copied_again_but_counts_as_used(self):
        worker = on_host(tiers(), A, B)
        compute(worker, A)
        assert worker.snapshot().host == (A, B)
        worker.evict()
        assert worker.snapshot().host == (B, A)
        assert worker.num_free == 3
        assert worker.ship() is None

    @pytest.mark.parametrize("shipped", [False, True])
    def test_what_is_on_its_way_to_the_host_is_not_copied_again(self, shipped):
        worker = tiers()
        compute(worker, A)
        worker.evict()
        if shipped:
            worker.ship()
        slot = compute(worker, A)[0]
        assert worker.evict() == slot
        assert worker.snapshot().free[-1] == slot
        worker.ship()
        settle(worker)
        assert [event for event in worker.take_events() if event.tier == "host"] == [Stored("host", A)]

    def test_a_full_host_evicts_its_oldest(self):
        worker = on_host(tiers(host=2), A, B)
        compute(worker, C)
        worker.make_room(3)
        settle(worker)
        assert worker.snapshot().host == (B, C)
        assert worker.take_events()[-2:] == [Removed("host", A), Stored("host", C)]

    def test_a_host_that_is_all_being_read_drops_what_comes(self):
        worker = on_host(tiers(host=1), A)
        compute(worker, B)
        worker.evict()
        worker.ship()
        worker.move(worker.now + F(3, 4))
        worker.swap_in("reader", [A])
        worker.take_events()
        assert [landed.promoted for landed in worker.advance(worker.now + F(1, 4))] == [None]
        assert worker.take_events() == []
        assert (worker.on_host(A), worker.on_host(B), worker.num_free) == (True, False, 2)


class TestMakeRoom:
    """Evict as much as is needed, in batches that are shipped as they fill."""

    @pytest.mark.parametrize(("wanted", "batches"), [(0, []), (1, []), (2, [1]), (3, [2]), (4, [2, 1]), (9, [2, 2])])
    def test_batches(self, wanted, batches):
        worker = tiers(slots=5, host=9)
        compute(worker, A, B, C, D)
        started = worker.make_room(wanted)
        assert [len(worker.snapshot().offloads[transfer]) for transfer in started] == batches
        assert worker.num_free + worker.num_leaving == (max(1, wanted) if wanted <= 5 else 5)

    def test_what_is_on_its_way_counts(self):
        worker = tiers()
        compute(worker, A, B)
        worker.make_room(2)
        assert worker.make_room(2) == []

    def test_without_a_copy_nothing_is_shipped(self):
        worker = tiers(host=0)
        compute(worker, A, B)
        assert worker.make_room(3) == []
        assert worker.num_free == 3


class TestLookup:
    """G5: a presence query finds a prefix, and changes nothing."""

    def test_device_then_host_and_no_further(self):
        worker = on_host(tiers(slots=4), C, D)
        compute(worker, A, B)
        assert worker.lookup([A, B, C, D, E]) == (2, 2)
        assert worker.lookup([A, E, C, D]) == (1, 0)
        assert worker.lookup([C, E, D]) == (0, 1)
        assert worker.lookup([C, A, D]) == (0, 1)
        assert worker.lookup([]) == (0, 0)

    def test_nothing_changes(self):
        worker = on_host(tiers(slots=4), C, D)
        compute(worker, A, B)
        before = worker.snapshot()
        worker.lookup([A, B, C, D, E])
        worker.find(A)
        worker.on_host(C)
        assert worker.snapshot() == before
        assert [event for event in worker.take_events() if event.tier == "host"] == []


class TestSwapIn:
    """G5: one transfer, one promotion."""

    def test_it_brings_what_follows_the_device_s_prefix(self):
        worker = on_host(tiers(slots=4), B, C)
        assert worker.snapshot().free == (2, 3, 0, 1)
        compute(worker, A)
        began = worker.now
        transfer = worker.swap_in("r", [A, B, C, D])
        assert worker.snapshot().swap_ins == {transfer: ("r", ((3, B), (0, C)))}
        assert (worker.find(B), worker.on_host(B), worker.num_free) == (None, True, 1)
        (landed,) = settle(worker)
        assert (landed.promoted, landed.completion.done - began) == ("r", F(1))
        assert (worker.find(B), worker.find(C)) == (3, 0)
        assert worker.snapshot().used == {3, 0}
        assert worker.take_events()[-2:] == [Stored("device", B), Stored("device", C)]

    def test_its_slots_cannot_be_had_before_it_has_landed(self):
        worker = on_host(tiers(slots=2), A)
        worker.swap_in("r", [A])
        assert worker.allocate_many(2) is None
        assert len(worker.snapshot().free) == 1

    def test_as_much_as_there_are_free_slots(self):
        worker = on_host(tiers(slots=2), A, B, C)
        worker.allocate()
        (last,) = worker.snapshot().free
        worker.swap_in("r", [A, B, C])
        assert [cargo for _, cargo in worker.snapshot().swap_ins.values()] == [((last, A),)]
        assert worker.swap_in("s", [A, B, C]) is None

    def test_nothing_to_bring_is_no_transfer_and_no_waiting(self):
        worker = on_host(tiers(), A)
        before = worker.snapshot()
        assert worker.swap_in("r", [B, A]) is None
        assert worker.snapshot() == before
        assert worker.swap_in("r", [A]) is not None

    def test_a_request_waits_for_one_at_a_time(self):
        worker = on_host(tiers(), A, B)
        worker.swap_in("r", [A])
        before = worker.snapshot()
        with pytest.raises(RefusedError, match="waits"):
            worker.swap_in("r", [B])
        assert worker.snapshot() == before
        settle(worker)
        assert worker.swap_in("r", [B]) is not None

    def test_what_is_read_stays_on_the_host_and_counts_as_used(self):
        worker = on_host(tiers(host=2), A, B)
        worker.swap_in("r", [A])
        assert worker.snapshot().host == (B,)
        settle(worker)
        assert worker.snapshot().host == (B, A)

    def test_what_two_read_stays_until_both_have_it(self):
        worker = on_host(tiers(), A, B)
        worker.swap_in("r", [A])
        worker.swap_in("s", [A, B])
        assert worker.snapshot().reading == {A: 2, B: 1}
        assert [landed.promoted for landed in worker.advance(worker.now + 1)] == ["r"]
        assert worker.snapshot().reading == {A: 1, B: 1}
        assert [landed.promoted for landed in worker.advance(worker.now + 1)] == ["s"]
        assert worker.snapshot().reading == {}
        assert worker.snapshot().host == (A, B)

    def test_what_is_found_by_then_is_not_found_twice(self):
        worker = on_host(tiers(), A)
        brought, computed, third = worker.snapshot().free
        worker.swap_in("r", [A])
        assert compute(worker, A) == [computed]
        settle(worker)
        assert worker.find(A) == computed
        assert worker.snapshot().keys == {computed: A}
        worker.release(brought)
        assert worker.snapshot().free == (third, brought)
        assert [event for event in worker.take_events() if event.tier == "device"] == [Stored("device", A)]

    def test_a_block_of_a_reader_that_goes_from_the_device_is_not_copied(self):
        worker = on_host(tiers(), A)
        worker.swap_in("r", [A])
        slot = compute(worker, A)[0]
        assert worker.evict() == slot
        assert worker.num_free == 2
        assert worker.snapshot().host == ()

    def test_both_ways_take_their_time_side_by_side_or_share_one_link(self):
        for links, times in (([DOWN, UP], [F(1, 2), F(1)]), ([DOWN], [F(2), F(2)])):
            worker: TimedTiers[Fraction] = TimedTiers(
                LinkModel(links, now=F(0)), slots=3, host_blocks=3, batch=2, block_bytes=F(2), up=len(links) - 1
            )
            on_host(worker, A)
            compute(worker, B)
            began = worker.now
            worker.make_room(3)
            worker.swap_in("r", [A])
            assert [landed.completion.done - began for landed in settle(worker)] == times


def test_what_others_move_takes_its_share_of_the_link_and_lands_with_nothing():
    links: LinkModel[Fraction] = LinkModel([DOWN, UP], now=F(0))
    worker = TimedTiers(links, slots=2, host_blocks=2, batch=2, block_bytes=F(2))
    compute(worker, A)
    worker.make_room(2)
    links.start(0, F(2))
    landed = [(ended.cargo, ended.promoted, ended.completion.done) for ended in worker.advance(F(9))]
    assert landed == [(((0, A),), None, F(2)), ((), None, F(2))]
    assert worker.on_host(A)


class TestConfiguration:
    """G7, and what else makes no sense."""

    def test_an_engine_that_cannot_offload_is_told_so(self):
        with pytest.raises(RefusedError, match="8 host blocks are configured, but sglang cannot offload"):
            check_offload("sglang", 8, able={"vllm"})
        with pytest.raises(RefusedError, match="1 host blocks"):
            check_offload("sglang", 1, able={"vllm"})
        check_offload("vllm", 8, able={"vllm"})
        check_offload("sglang", 0, able={"vllm"})

    def test_without_host_blocks_there_is_no_tier(self):
        worker: TimedTiers[Fraction] = TimedTiers(LinkModel([]), slots=2, host_blocks=0, batch=1, block_bytes=F(2))
        compute(worker, A, B)
        worker.evict()
        worker.evict()
        assert (worker.num_free, worker.ship(), worker.deadline()) == (2, None, None)
        assert worker.swap_in("r", [A]) is None
        assert worker.take_events() == [
            Stored("device", A),
            Stored("device", B),
            Removed("device", A),
            Removed("device", B),
        ]

    @pytest.mark.parametrize(
        "change", [{"slots": 0}, {"host_blocks": -1}, {"batch": 0}, {"block_bytes": F(-1)}, {"down": 2}, {"up": -1}]
    )
    def test_what_makes_no_sense_is_refused(self, change):
        with pytest.raises(RefusedError):
            TimedTiers(
                LinkModel([DOWN, UP]), **{"slots": 1, "host_blocks": 1, "batch": 1, "block_bytes": F(1)} | change
            )


class TestAdoption:
    """A block that came to the host from a tier behind it."""

    def test_it_lands_like_any_other(self):
        worker = on_host(tiers(host=2), A, B)
        worker.adopt(C)
        assert worker.take_events() == [Removed("host", A), Stored("host", C)]
        assert worker.snapshot().host == (B, C)

    def test_without_a_host_tier_it_has_no_place(self):
        worker = tiers(host=0)
        with pytest.raises(RefusedError, match="no host tier"):
            worker.adopt(C)


REFUSED: dict[str, Callable[[TimedTiers[Fraction]], object]] = {
    "allocate a negative number": lambda worker: worker.allocate_many(-1),
    "register a free slot": lambda worker: worker.register(3, E),
    "register an idle slot": lambda worker: worker.register(1, E),
    "register a slot that has a key": lambda worker: worker.register(0, E),
    "register a key that is found": lambda worker: worker.register(2, A),
    "release a free slot": lambda worker: worker.release(3),
    "release an idle slot": lambda worker: worker.release(1),
    "release no slot": lambda worker: worker.release(9),
    "touch a used slot": lambda worker: worker.touch(0),
    "touch a free slot": lambda worker: worker.touch(3),
    "touch no slot": lambda worker: worker.touch(-1),
    "complete before it is due": lambda worker: worker.complete(),
    "pass a deadline": lambda worker: worker.move(worker.now + 2),
    "adopt what is on the host": lambda worker: worker.adopt(C),
    "adopt what is on its way": lambda worker: worker.adopt(D),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
def test_an_illegal_call_changes_nothing(call):
    worker = on_host(tiers(slots=5), C)
    assert worker.allocate_many(5) is not None
    for slot, key in ((0, A), (1, B), (4, D)):
        worker.register(slot, key)
    worker.release(4)
    worker.evict()
    worker.ship()
    worker.release(1)
    worker.release(3)
    worker.take_events()
    before = worker.snapshot()  # A is used in 0, B idle in 1, D copying in 4; 2 is used without a key, 3 is free
    with pytest.raises(RefusedError):
        call(worker)
    assert worker.snapshot() == before
    assert worker.take_events() == []


# ---------------------------------------------------------------------------------------------- any run

KEYS = (A, B, C, D, E, G)

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("compute"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("touch"), st.integers(0, 9)),
        st.tuples(st.just("evict"), st.none()),
        st.tuples(st.just("ship"), st.none()),
        st.tuples(st.just("make_room"), st.integers(0, 5)),
        st.tuples(st.just("swap_in"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)),
        st.tuples(st.just("lapse"), st.integers(0, 12)),
        st.tuples(st.just("complete"), st.none()),
    ),
    min_size=10,
    max_size=60,
)


class Run:
    """A worker, whoever listens to its events, and what was promised to requests."""

    def __init__(self, host: int) -> None:
        self.worker = tiers(slots=4, host=host, batch=2)
        self.host = host
        self.believed: dict[str, set[bytes]] = {"device": set(), "host": set()}
        self.waiting: dict[RequestId, int] = {}
        self.shipped: dict[int, Fraction] = {}

    def do(self, name: str, operand: object) -> None:
        """Do an operation where it is legal, and hold the worker to its rules."""
        before = self.worker.snapshot()
        getattr(self, name)(operand, before)
        self.listen()
        self.check(self.worker.snapshot())

    def compute(self, keys: list[bytes], before: TiersSnapshot[Fraction]) -> None:
        slots = self.worker.allocate_many(len(keys))
        assert slots == (list(before.free[: len(keys)]) if len(keys) <= len(before.free) else None)
        for slot, key in zip(slots or (), keys, strict=False):
            if self.worker.find(key) is None:
                self.worker.register(slot, key)

    def release(self, at: int, before: TiersSnapshot[Fraction]) -> None:
        if before.used:
            self.worker.release(sorted(before.used)[at % len(before.used)])

    def touch(self, at: int, before: TiersSnapshot[Fraction]) -> None:
        if before.idle:
            self.worker.touch(before.idle[at % len(before.idle)])

    def evict(self, _: None, before: TiersSnapshot[Fraction]) -> None:
        if len(before.gathered) < self.worker.batch:
            assert self.worker.evict() == (before.idle[0] if before.idle else None)

    def ship(self, _: None, before: TiersSnapshot[Fraction]) -> None:
        transfer = self.worker.ship()
        assert (transfer is None) == (not before.gathered)
        self.began()

    def make_room(self, n: int, before: TiersSnapshot[Fraction]) -> None:
        started = self.worker.make_room(n)
        after = self.worker.snapshot()
        assert after.gathered == ()
        assert self.worker.num_free + self.worker.num_leaving >= n or after.idle == ()
        assert all(1 <= len(after.offloads[transfer]) <= self.worker.batch for transfer in started)
        assert before.idle[len(before.idle) - len(after.idle) :] == after.idle
        self.began()

    def swap_in(self, keys: list[bytes], before: TiersSnapshot[Fraction]) -> None:
        request = "".join(sorted(key.decode() for key in keys))
        if request in self.waiting:
            with pytest.raises(RefusedError):
                self.worker.swap_in(request, keys)
            return
        device = next((at for at, key in enumerate(keys) if key not in before.found), len(keys))
        host = next((at for at, key in enumerate(keys) if at >= device and not self.worker.on_host(key)), len(keys))
        wanted = keys[device : min(host, device + len(before.free))]
        transfer = self.worker.swap_in(request, keys)
        assert (transfer is None) == (not wanted)
        if transfer is not None:
            self.waiting[request] = transfer
            assert self.worker.snapshot().swap_ins[transfer] == (
                request,
                tuple(zip(before.free, wanted, strict=False)),
            )
        self.began()

    def complete(self, _: None, before: TiersSnapshot[Fraction]) -> None:
        """The next transfer of all lands."""
        deadline = self.worker.deadline()
        if deadline is not None:
            self.worker.move(deadline)
            self.landed(self.worker.complete())

    def lapse(self, eighths: int, before: TiersSnapshot[Fraction]) -> None:
        """Time passes."""
        to = self.worker.now + F(eighths, 8)
        while (deadline := self.worker.deadline()) is not None and deadline <= to:
            self.do("complete", None)
        self.worker.move(to)

    def began(self) -> None:
        """Note when each transfer has begun."""
        snapshot = self.worker.snapshot()
        for transfer in (*snapshot.offloads, *snapshot.swap_ins):
            self.shipped.setdefault(transfer, self.worker.now)

    def landed(self, landed: Landed[Fraction]) -> None:
        """What every landing has to be."""
        transfer, cargo = landed.completion.id, landed.cargo
        assert landed.completion.size == 2 * len(cargo)
        least = landed.completion.size / (DOWN if landed.promoted is None else UP)
        assert landed.completion.done - self.shipped.pop(transfer) >= least
        after = self.worker.snapshot()
        if landed.promoted is None:
            assert after.free[len(after.free) - len(cargo) :] == tuple(slot for slot, _ in cargo)
        else:
            assert self.waiting.pop(landed.promoted) == transfer  # once
            assert {slot for slot, _ in cargo} <= after.used
            assert all(self.worker.find(key) is not None for _, key in cargo)

    def listen(self) -> None:
        """G6, P12: each event changes what is believed."""
        for event in self.worker.take_events():
            there = self.believed[event.tier]
            assert (event.key in there) == isinstance(event, Removed)
            (there.add if isinstance(event, Stored) else there.remove)(event.key)

    def check(self, now: TiersSnapshot[Fraction]) -> None:
        """G1, and that events, maps and queues tell one story."""
        cargo = [slot for moved in now.offloads.values() for slot, _ in moved]
        cargo += [slot for _, moved in now.swap_ins.values() for slot, _ in moved]
        places = [*now.free, *now.idle, *now.used, *(slot for slot, _ in now.gathered), *cargo]
        assert sorted(places) == list(range(self.worker.slots))
        assert self.worker.num_free == len(now.free)
        assert {key: slot for slot, key in now.keys.items()} == now.found
        assert set(now.idle) <= set(now.keys) <= set(now.idle) | now.used
        assert self.believed["device"] == set(now.found) == {key for key in KEYS if self.worker.find(key) is not None}
        host = [*now.host, *now.reading]
        assert len(set(host)) == len(host) <= self.host
        assert self.believed["host"] == set(host) == {key for key in KEYS if self.worker.on_host(key)}
        leaving = [key for _, key in now.gathered] + [key for moved in now.offloads.values() for _, key in moved]
        assert len(set(leaving)) == len(leaving) == self.worker.num_leaving
        assert not set(leaving) & set(host)
        read = [key for _, moved in now.swap_ins.values() for _, key in moved]
        assert now.reading == {key: read.count(key) for key in read}
        assert {request: transfer for transfer, (request, _) in now.swap_ins.items()} == self.waiting
        assert [active.id for active in now.links.active] == sorted([*now.offloads, *now.swap_ins])


@given(st.integers(0, 4), OPERATIONS)
def test_any_run_keeps_all_rules(host, operations):
    run = Run(host)
    for name, operand in operations:
        run.do(name, operand)
    run.do("make_room", run.worker.slots)
    while run.worker.deadline() is not None:
        run.do("complete", None)
    assert not run.waiting
    after = run.worker.snapshot()
    assert len(after.free) + len(after.used) == run.worker.slots


@given(OPERATIONS)
def test_time_in_one_call_or_in_many(operations):
    """And the same steps come to the same end."""
    runs = [Run(3), Run(3)]
    for name, operand in operations:
        runs[0].do(name, operand)
        if name == "lapse":
            runs[1].worker.advance(runs[1].worker.now + F(operand, 8))
            runs[1].waiting = dict(runs[0].waiting)
        else:
            runs[1].do(name, operand)
    assert runs[0].worker.snapshot() == runs[1].worker.snapshot()

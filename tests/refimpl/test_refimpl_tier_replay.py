"""Serving traces through tiers (G1, G4, G5, G8): hits, waiting, stalls, and one story whatever the clock."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.timed.clocks import Clock, VirtualClock, WallClock
from kvproof.refimpl.timed.links import LinkModel
from kvproof.refimpl.timed.records import Landed
from kvproof.refimpl.timed.replay import LogEntry, RequestRecord, StallError, TierReplay, TimedRequest, run
from kvproof.refimpl.timed.shared_access import Fetched, SharedAccess
from kvproof.refimpl.timed.shared_tier import SharedLanded, SharedTier
from kvproof.refimpl.timed.tiers import TimedTiers

DOWN, UP, STORE, FETCH = 2.0, 4.0, 1.0, 2.0
"""Bytes per second; a block has 2 bytes."""


class FakeTime:
    """A machine's clock and its sleep, for tests. Who sleeps is woken ``late`` after its time."""

    def __init__(self, began: float = 98765.4321, late: float = 0.0) -> None:
        self.time = began
        self.late = late

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.time += seconds + self.late


def request(name: str, arrival: float, text: str, *, partial: int = 0, seconds: float = 1.0) -> TimedRequest:
    """A request whose blocks are named by the prefixes of ``text``, and some that are not full."""
    keys = tuple(text[: end + 1].encode() for end in range(len(text)))
    limit = len(keys) if partial else len(keys) - 1
    return TimedRequest(name, arrival, keys, len(keys) + partial, limit, seconds)


def worker(
    requests: Sequence[TimedRequest],
    *,
    slots: int = 4,
    host: int = 8,
    batch: int = 2,
    concurrency: int = 1,
    bandwidths: tuple[float | None, float | None] = (DOWN, UP),
    shared: SharedAccess | None = None,
) -> TierReplay:
    """A worker that is about to serve these."""
    tiers = TimedTiers(LinkModel(bandwidths, now=0.0), slots=slots, host_blocks=host, batch=batch, block_bytes=2.0)
    return TierReplay(tiers, requests, concurrency=concurrency, shared=shared)


def access(tier: SharedTier[float], index: int = 0) -> SharedAccess:
    """A worker's way to a shared tier."""
    return SharedAccess(tier, index, LinkModel([FETCH], now=0.0), block_bytes=2.0)


def shared_tier(workers: int = 1) -> SharedTier[float]:
    """A tier to which a block takes 2 s alone."""
    return SharedTier(LinkModel([STORE], now=0.0), workers, block_bytes=2.0)


def served(replay: TierReplay, clock: Clock | None = None) -> dict[object, RequestRecord]:
    """Let a worker serve everything."""
    run([replay], clock or VirtualClock())
    return {record.name: record for record in replay.records}


def times(record: RequestRecord) -> tuple[float, float, float]:
    """Queued, waited, finished."""
    return record.queued, record.waited, record.finished


def hits(record: RequestRecord) -> tuple[int, int, int]:
    """Reused blocks by tier."""
    return record.device_blocks, record.host_blocks, record.shared_blocks


class TestServing:
    """What a request reuses, and how long everything takes: by hand."""

    def test_a_prefix_on_the_device_is_not_computed_again(self):
        records = served(worker([request("r", 1.0, "ab", partial=1), request("s", 9.0, "abc")]))
        assert (hits(records["r"]), times(records["r"])) == ((0, 0, 0), (0, 0, 4.0))
        assert (hits(records["s"]), times(records["s"])) == ((2, 0, 0), (0, 0, 10.0))

    def test_the_last_token_is_always_computed(self):
        records = served(worker([request("r", 0.0, "ab"), request("s", 9.0, "ab")]))
        assert (hits(records["s"]), records["s"].finished) == ((1, 0, 0), 10.0)

    def test_offload_keeps_the_next_one_waiting_and_swap_in_brings_the_prefix_back(self):
        requests = [request("r", 0.0, "abcd"), request("s", 10.0, "wxyz"), request("t", 30.0, "abc", partial=1)]
        replay = worker(requests, batch=4)
        records = served(replay)
        # s: four blocks go down, 8 bytes at 2 a second; t: four more go down, then three come up at 4 a second.
        assert times(records["s"]) == (4.0, 0.0, 18.0)
        assert hits(records["t"]) == (0, 3, 0)
        assert times(records["t"]) == (4.0, 1.5, 36.5)
        assert [(type(entry).__name__, entry.completion.size, entry.completion.done) for entry in replay.log] == [
            ("Landed", 8.0, 14.0),
            ("Landed", 8.0, 34.0),
            ("Landed", 6.0, 35.5),
        ]

    def test_slots_come_as_batches_land(self):
        """G4: the smaller the batches, the earlier their slots are free, since two share the link."""
        replay = worker([request("r", 0.0, "abcd"), request("s", 10.0, "wx"), request("t", 12.0, "yz")], batch=1)
        records = served(replay)
        assert [entry.completion.done for entry in replay.log] == [12.0, 12.0, 16.0, 16.0]
        assert (records["s"].queued, records["t"].queued) == (2.0, 4.0)

    def test_without_a_host_nothing_waits_and_nothing_comes_back(self):
        replay = worker([request("r", 0.0, "abcd"), request("s", 10.0, "wxyz"), request("t", 20.0, "abcd")], host=0)
        records = served(replay)
        assert [times(record) for record in records.values()] == [(0, 0, 4), (0, 0, 14), (0, 0, 24)]
        assert (hits(records["t"]), replay.log) == ((0, 0, 0), [])

    def test_links_that_take_no_time_make_nobody_wait(self):
        requests = [request(f"{at}", 5.0 * at, text) for at, text in enumerate(["abcd", "wxyz", "abce", "wxya"])]
        records = served(worker(requests, bandwidths=(None, None)))
        assert [(record.queued, record.waited) for record in records.values()] == [(0, 0)] * 4
        assert [hits(record) for record in records.values()] == [(0, 0, 0), (0, 0, 0), (0, 3, 0), (0, 3, 0)]

    def test_the_end_of_a_prefix_goes_before_its_beginning(self):
        requests = [request("r", 0.0, "abcd"), request("s", 10.0, "wx"), request("t", 20.0, "abc")]
        assert hits(served(worker(requests, host=0))["t"]) == (2, 0, 0)

    def test_two_at_a_time_share_a_block(self):
        requests = [request("p", 0.0, "a"), request("r", 5.0, "ab"), request("s", 5.0, "ac"), request("t", 5.0, "ad")]
        records = served(worker(requests, concurrency=2))
        assert [hits(records[name])[0] for name in "rst"] == [1, 1, 1]
        assert [records[name].finished for name in "rst"] == [6.0, 6.0, 7.0]
        assert records["t"].queued == 1.0

    def test_a_request_behind_one_that_waits_for_slots_does_not_overtake_it(self):
        requests = [request("r", 0.0, "abc", seconds=5.0), request("s", 1.0, "wxyz"), request("t", 2.0, "m")]
        replay = worker(requests, concurrency=3, bandwidths=(None, None))
        assert list(served(replay)) == ["r", "s", "t"]

    def test_arrivals_need_not_be_sorted(self):
        replay = worker([request("late", 3.0, "ab"), request("early", 1.0, "ab")])
        assert list(served(replay)) == ["early", "late"]

    def test_a_block_that_two_compute_at_a_time_is_registered_once(self):
        replay = worker([request("r", 0.0, "ab"), request("s", 0.0, "ab")], concurrency=2)
        records = served(replay)
        assert [hits(record) for record in records.values()] == [(0, 0, 0)] * 2


class TestStall:
    """G1: when nothing can run and nothing is on its way, that is said."""

    def test_a_request_that_never_fits_and_who_stands_behind_it(self):
        replay = worker([request("r", 0.0, "ab"), request("s", 1.0, "vwxyz"), request("t", 2.0, "a")])
        with pytest.raises(
            StallError, match=r"request s waits for 5 slots, 4 of 4 are free; request t waits for its turn"
        ):
            served(replay)
        assert [record.name for record in replay.records] == ["r"]


class TestShared:
    """G8: what leaves the host goes to a tier behind it, and comes back through the host."""

    def requests(self) -> list[TimedRequest]:
        """The first one's blocks leave the device, then the host; then it comes again."""
        texts = ["abcd", "ijkl", "mnop", "qrst", "abce"]
        return [request(f"{at}", 100.0 * at, text) for at, text in enumerate(texts)]

    def test_a_block_comes_back_through_the_host(self):
        replay = worker(self.requests(), batch=4, shared=access(shared_tier()))
        records = served(replay)
        assert hits(records["4"]) == (0, 0, 3)
        # Three blocks of 2 bytes are fetched at 2 a second; four go down at 2 a second; three come up at 4.
        assert times(records["4"]) == (4.0, 3.0 + 1.5, 400.0 + 8.5 + 1.0)
        fetched = [entry for entry in replay.log if isinstance(entry, Fetched)]
        assert [(entry.request, entry.keys, entry.completion.size) for entry in fetched] == [
            ("4", (b"a", b"ab", b"abc"), 6.0)
        ]
        stored = [entry.key for entry in replay.log if isinstance(entry, SharedLanded)]
        assert sorted(stored)[:4] == [b"a", b"ab", b"abc", b"abcd"]
        assert len(set(stored)) == len(stored)

    def test_what_two_fetch_at_a_time_lands_on_the_host_once(self):
        texts = ["abcd", "ijkl", "mnop", "qrst", "uvwx"]
        requests = [request(f"{at}", 100.0 * at, text) for at, text in enumerate(texts)]
        mutants = [request("one", 500.0, "abce"), request("other", 500.0, "abcf")]
        replay = worker([*requests, *mutants], slots=8, batch=4, concurrency=2, shared=access(shared_tier()))
        records = served(replay)
        fetched = [entry for entry in replay.log if isinstance(entry, Fetched)]
        assert [(entry.request, len(entry.keys), entry.completion.done) for entry in fetched] == [
            ("one", 3, 506.0),
            ("other", 3, 506.0),
        ]
        # The other finds on the device what the one has brought there, while it waits for slots.
        assert (hits(records["one"]), hits(records["other"])) == ((0, 0, 3), (3, 0, 0))

    def test_what_is_on_its_way_to_the_host_when_it_was_fetched_is_not_put_there_twice(self):
        tier = shared_tier(2)
        # The block leaves the other's host at 4 and is stored by 6. Here it is computed till 9.5, on its way to the
        # host till 10.5, since others need its slot; and fetched from 9 to 10.
        other = worker(
            [request("0", 0.0, "a"), request("1", 1.0, "m"), request("2", 3.0, "n")],
            slots=1,
            host=1,
            shared=access(tier, 1),
        )
        requests = [request("first", 0.0, "a", seconds=9.5), request("again", 9.0, "ab"), request("wide", 9.2, "xy")]
        replay = worker(requests, slots=2, concurrency=3, shared=access(tier))
        run([replay, other], VirtualClock())
        ended = [(type(entry).__name__, entry.completion.done) for entry in replay.log]
        assert ended[:3] == [("SharedLanded", 6.0), ("Fetched", 10.0), ("Landed", 10.5)]
        assert {record.name: hits(record) for record in replay.records}["again"] == (0, 0, 1)

    def test_without_it_the_block_is_computed_again(self):
        assert hits(served(worker(self.requests(), batch=4))["4"]) == (0, 0, 0)

    def test_another_worker_finds_it_once_it_has_landed(self):
        tier = shared_tier(2)
        first = worker(self.requests()[:4], batch=4, shared=access(tier, 0))
        # Four blocks leave the host at 304, for the fourth request, and are 8 s on their way.
        early = request("early", 308.0, "abcd")
        second = worker([early, request("late", 330.0, "abcd")], slots=8, shared=access(tier, 1))
        run([first, second], VirtualClock())
        assert [(record.name, hits(record)) for record in second.records] == [("early", (0, 0, 0)), ("late", (3, 0, 0))]
        tier = shared_tier(2)
        first = worker(self.requests()[:4], batch=4, shared=access(tier, 0))
        second = worker([request("late", 330.0, "abcd")], slots=8, shared=access(tier, 1))
        run([first, second], VirtualClock())
        assert [(record.name, hits(record)) for record in second.records] == [("late", (0, 0, 3))]

    def test_a_host_that_is_too_small_keeps_the_beginning_of_what_was_fetched(self):
        tier = shared_tier(2)
        first = worker(self.requests()[:4], batch=4, shared=access(tier, 0))
        second = worker([request("late", 330.0, "abcd")], slots=8, host=2, shared=access(tier, 1))
        run([first, second], VirtualClock())
        assert [hits(record) for record in second.records] == [(0, 0, 2)]

    def test_links_that_take_no_time(self):
        tier = SharedTier(LinkModel([None], now=0.0), 1, block_bytes=2.0)
        shared = SharedAccess(tier, 0, LinkModel([None], now=0.0), block_bytes=2.0)
        replay = worker(self.requests(), batch=4, bandwidths=(None, None), shared=shared)
        records = served(replay)
        assert hits(records["4"]) == (0, 0, 3)
        assert [(record.queued, record.waited) for record in records.values()] == [(0, 0)] * 5

    def test_what_has_landed_by_now_is_seen_at_once(self):
        tier = SharedTier(LinkModel([None], now=0.0), 1, block_bytes=2.0)
        shared = SharedAccess(tier, 0, LinkModel([None], now=0.0), block_bytes=2.0)
        shared.store(b"a")
        assert shared.leading([b"a", b"ab"]) == (b"a",)
        assert [landed.key for landed in shared.landed()] == [b"a"]
        assert shared.landed() == []

    def test_the_next_deadline_is_that_of_whichever_way_is_sooner(self):
        tier = shared_tier()
        shared = access(tier)
        shared.store(b"a")
        shared.work(2.0)
        assert [landed.key for landed in shared.landed()] == [b"a"]
        shared.store(b"b")
        goes = tier.deadline()
        assert goes is not None
        assert shared.deadline() == goes
        shared.fetch("r", (b"a",))
        comes = shared._fetches.deadline()
        assert comes is not None
        assert comes != goes
        assert shared.deadline() == min(comes, goes)

    def test_it_needs_a_host_tier_in_front(self):
        with pytest.raises(RefusedError, match="through the host tier"):
            worker([], host=0, shared=access(shared_tier()))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: worker([], concurrency=0), id="nobody may come in"),
        pytest.param(lambda: worker([request("r", 0.0, "a"), request("r", 1.0, "b")]), id="two of one name"),
        pytest.param(lambda: worker([TimedRequest("r", 0.0, (b"a",), 0, 0)]), id="more keys than blocks"),
        pytest.param(lambda: worker([TimedRequest("r", 0.0, (b"a",), 1, 2)]), id="reuses what has no key"),
        pytest.param(lambda: access(shared_tier(), 1), id="a worker that the tier does not have"),
        pytest.param(
            lambda: SharedAccess(shared_tier(), 0, LinkModel([FETCH]), block_bytes=2.0, link=1),
            id="a link that there is not",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object]):
    with pytest.raises(RefusedError):
        make()


class TestClocks:
    """A virtual clock jumps, the wall's is slept on."""

    def test_a_virtual_clock_is_where_it_is_waited_for_and_never_goes_back(self):
        clock = VirtualClock(2.0)
        assert (clock.wait_until(5.0), clock.now(), clock.wait_until(3.0), clock.now()) == (5.0, 5.0, 5.0, 5.0)

    def test_a_wall_clock_begins_at_0_and_sleeps(self):
        fake = FakeTime()
        clock = WallClock(fake.monotonic, fake.sleep)
        assert clock.now() == 0.0
        assert clock.wait_until(0.1) == 0.1
        assert clock.now() == pytest.approx(0.1)
        assert clock.wait_until(0.05) == pytest.approx(0.1)

    def test_who_is_woken_late_is_told_so(self):
        fake = FakeTime(late=0.25)
        assert WallClock(fake.monotonic, fake.sleep).wait_until(1.0) == pytest.approx(1.25)

    def test_who_is_as_far_off_as_the_clock_can_tell_is_in_time(self):
        fake = FakeTime(0.0, late=0.25)
        clock = WallClock(fake.monotonic, fake.sleep, resolution=0.25)
        assert (clock.wait_until(0.25), clock.now()) == (0.25, 0.0)
        assert (clock.wait_until(1.0), clock.now()) == (1.0, 1.25)

    def test_who_is_woken_early_sleeps_on(self):
        fake = FakeTime(late=-0.25)
        assert WallClock(fake.monotonic, fake.sleep, resolution=0.3).wait_until(1.0) == 1.0
        fake = FakeTime()
        naps: list[float] = []

        def nap(seconds: float) -> None:
            naps.append(seconds)
            fake.sleep(seconds if seconds < 0.5 else 0.5)

        assert WallClock(fake.monotonic, nap).wait_until(1.25) == 1.25
        assert naps == pytest.approx([1.25, 0.75, 0.25])

    def test_the_machine_s_own(self):
        clock = WallClock()
        assert clock.wait_until(0.01) >= 0.01
        assert 0.01 - 1e-6 <= clock.now() < 5.0


# ---------------------------------------------------------------------------------------------- any trace

TEXTS = st.tuples(st.sampled_from(["", "a", "ab", "b", "bcd"]), st.text("abc", min_size=1, max_size=3)).map("".join)

TRACES = st.lists(
    st.tuples(TEXTS, st.integers(0, 1), st.floats(0, 4), st.floats(0, 2)),
    min_size=1,
    max_size=25,
).map(
    lambda drawn: [
        request(f"{at}", sum(gap for *_, gap, _ in drawn[: at + 1]), text, partial=partial, seconds=seconds)
        for at, (text, partial, _, seconds) in enumerate(drawn)
    ]
)

SETTINGS = st.fixed_dictionaries(
    {
        "slots": st.integers(7, 12),
        "host": st.integers(0, 6),
        "batch": st.integers(1, 4),
        "concurrency": st.integers(1, 4),
        "bandwidths": st.tuples(st.one_of(st.none(), st.floats(0.3, 20)), st.one_of(st.none(), st.floats(0.3, 20))),
    }
)


def with_shared(trace: list[TimedRequest], settings: dict[str, Any], clock: Clock) -> TierReplay:
    """Serve a trace, with a shared tier where there is a host tier."""
    shared = access(shared_tier()) if settings["host"] else None
    replay = worker(trace, shared=shared, **settings)
    run([replay], clock)
    return replay


def shown(log: list[LogEntry]) -> list[tuple[str, LogEntry]]:
    """Everything in a log that counts: batches, bytes, order, completions."""
    return [(type(entry).__name__, entry) for entry in log]


@given(TRACES, SETTINGS, st.sampled_from([0.0, 98765.4321, 1e6 / 3]))
def test_live_and_virtual_tell_one_story(trace, settings, began):
    """G4: equal batches, bytes, order and completions, to the last bit."""
    fake = FakeTime(began)
    live = with_shared(trace, settings, WallClock(fake.monotonic, fake.sleep))
    virtual = with_shared(trace, settings, VirtualClock())
    assert shown(live.log) == shown(virtual.log)
    assert live.records == virtual.records


@given(TRACES, SETTINGS, st.floats(0.001, 1))
def test_a_machine_that_wakes_late_serves_the_same_requests(trace, settings, late):
    fake = FakeTime(late=late)
    live = with_shared(trace, settings, WallClock(fake.monotonic, fake.sleep))
    check(live, trace, settings)


@given(TRACES, SETTINGS)
def test_any_trace_keeps_all_rules(trace, settings):
    check(with_shared(trace, settings, VirtualClock()), trace, settings)


def check(replay: TierReplay, trace: list[TimedRequest], settings: dict[str, Any]) -> None:
    """What holds for every run that came to its end."""
    by_name = {record.name: record for record in replay.records}
    assert len(by_name) == len(replay.records) == len(trace)
    for one in trace:
        record = by_name[one.name]
        reused = sum(hits(record))
        assert 0 <= reused <= one.lookup_limit
        assert min(hits(record)) >= 0
        assert record.queued >= -1e-9
        assert record.waited >= 0
        took = one.seconds_per_block * (one.blocks - reused)
        assert record.finished >= record.arrived + took - 1e-9
        # Only what somebody had computed by then can be reused.
        known = {key for other in trace if by_name[other.name].finished <= record.finished for key in other.keys}
        assert set(one.keys[:reused]) <= known
        if not record.waited:
            assert record.host_blocks == record.shared_blocks == 0 or settings["bandwidths"][1] is None
    for entry in replay.log:
        completion = entry.completion
        if isinstance(entry, Landed):
            bandwidth = settings["bandwidths"][0 if entry.promoted is None else 1]
            assert len(entry.cargo) <= (settings["batch"] if entry.promoted is None else settings["slots"])
            assert completion.size == 2.0 * len(entry.cargo)
        else:
            bandwidth = STORE if isinstance(entry, SharedLanded) else FETCH
        assert completion.done >= completion.begun + (completion.size / bandwidth if bandwidth else 0) * (1 - 1e-9)
    promoted = [entry.promoted for entry in replay.log if isinstance(entry, Landed) and entry.promoted is not None]
    assert len(set(promoted)) == len(promoted)  # once each


@given(TRACES)
def test_with_room_for_all_and_one_at_a_time_every_prefix_seen_is_a_hit(trace):
    """Against a set of everything that was computed before."""
    replay = worker(trace, slots=200, concurrency=1)
    records = served(replay)
    seen: set[bytes] = set()
    for one in trace:
        expected = 0
        while expected < one.lookup_limit and one.keys[expected] in seen:
            expected += 1
        assert hits(records[one.name]) == (expected, 0, 0)
        seen.update(one.keys)
    assert replay.log == []


@given(TRACES, SETTINGS)
def test_at_the_end_every_slot_is_free_or_idle(trace, settings):
    tiers = TimedTiers(
        LinkModel(settings["bandwidths"], now=0.0),
        slots=settings["slots"],
        host_blocks=settings["host"],
        batch=settings["batch"],
        block_bytes=2.0,
    )
    run([TierReplay(tiers, trace, concurrency=settings["concurrency"])], VirtualClock())
    after = tiers.snapshot()
    assert len(after.free) + len(after.idle) == settings["slots"]
    assert not after.reading
    assert tiers.deadline() is None

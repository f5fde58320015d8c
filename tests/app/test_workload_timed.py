"""Replaying through tiers in virtual time: hit rates that must come out, and each rule against tiers that break it."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.cli import main as cli
from kvproof.cli.workload import plot
from kvproof.cli.workload.timed_options import parse_bytes, parse_rate
from kvproof.cli.workload.timed_report import show_time
from kvproof.errors import UsageError
from kvproof.refimpl.timed import replay
from kvproof.refimpl.timed.host_cache import HostCache
from kvproof.refimpl.timed.links import Completion, LinkModel
from kvproof.refimpl.timed.replay import RequestRecord, TierReplay
from kvproof.refimpl.timed.shared_access import SharedAccess
from kvproof.refimpl.timed.shared_tier import SharedTier
from kvproof.refimpl.timed.tiers import TimedTiers
from kvproof.workload.replay import Replay
from kvproof.workload.requests import Workload, read_workload
from kvproof.workload.target import RefimplTarget
from kvproof.workload.tiers import TierResult, TierSetting, replay_tiers, summarize
from kvproof.workload.timed_story import Link, judge_link
from kvproof.workload.timed_watch import WatchedTiers
from kvproof.workload.violation import Violation

from .test_workload import DATA, make_lines, workload_of, write_lines

HEAD = Path(__file__).parents[2] / "benchmarks" / "data" / "conversation_head.jsonl"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "small.jsonl", make_lines(1))


def in_time(work: Workload, check: Any = "every", **options: Any) -> TierResult:
    """Replay; a host for everything and links of no time unless told otherwise."""
    given = {"capacity": work.total_blocks, "host_blocks": work.total_blocks, "block_bytes": 1024.0, **options}
    return replay_tiers(work, TierSetting(**given), check=check)


def of_an_unlimited_device(work: Workload) -> float:
    return Replay(work, RefimplTarget(work.total_blocks), check="end").run().hit_rate


class TestHitRates:
    """Where nothing is lost and nothing takes time, every tier finds what one unlimited device finds."""

    @given(seed=st.integers(0, 1000))
    def test_all_is_found_on_an_unlimited_device(self, seed: int) -> None:
        work = workload_of(make_lines(seed, requests=12))
        result = in_time(work)
        assert result.violation is None
        assert result.hit_rate == result.hit_rates.device == of_an_unlimited_device(work)
        assert (result.waited.requests, result.queued.requests) == (0, 0)

    @given(seed=st.integers(0, 1000), spare=st.integers(0, 10), batch=st.integers(1, 5))
    def test_all_is_found_on_device_and_unlimited_host(self, seed: int, spare: int, batch: int) -> None:
        work = workload_of(make_lines(seed, requests=12))
        result = in_time(work, capacity=work.largest_request + spare, batch=batch)
        assert result.violation is None
        assert result.hit_rate == of_an_unlimited_device(work)
        assert (result.waited.max, result.queued.max) == (0, 0)

    @given(
        seed=st.integers(0, 1000),
        spare=st.integers(-4, 20),
        host=st.integers(1, 60),
        rates=st.tuples(*[st.sampled_from(["unlimited", 256.0, 5000.0, 1e6])] * 3),
        shared=st.booleans(),
        sizes=st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 4)),
        block_seconds=st.sampled_from([0.0, 0.02, 0.5]),
    )
    def test_no_rule_is_broken(
        self,
        seed: int,
        spare: int,
        host: int,
        rates: tuple[Any, Any, Any],
        shared: bool,
        sizes: tuple[int, int, int],
        block_seconds: float,
    ) -> None:
        work = workload_of(make_lines(seed, requests=12))
        batch, workers, concurrency = sizes
        result = in_time(
            work,
            capacity=max(1, work.largest_request + spare),
            host_blocks=host,
            batch=batch,
            down=rates[0],
            up=rates[1],
            shared=rates[2] if shared else None,
            workers=workers,
            concurrency=concurrency,
            block_seconds=block_seconds,
        )
        assert result.violation is None
        parts = result.hit_rates
        assert result.hit_rate == pytest.approx(parts.device + parts.host + parts.shared)
        assert result.hit_rate <= of_an_unlimited_device(work)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "hit_rate"), [("conversation_trace.jsonl", "0.373380"), ("synthetic_trace.jsonl", "0.650431")]
    )
    @pytest.mark.parametrize("capacity", [1000, None])
    def test_real_trace(self, name: str, hit_rate: str, capacity: int | None) -> None:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"the published trace {name} does not lie beside the repository")
        work = read_workload(path)
        result = in_time(work, "sampled", capacity=capacity or work.total_blocks)
        assert result.violation is None
        assert f"{result.hit_rate:.6f}" == hit_rate
        assert result.checks >= 8

    def test_the_head_of_the_real_trace_through_three_slow_tiers(self) -> None:
        work = read_workload(HEAD)
        slow = {"down": 25e9, "up": 25e9, "shared": 5e9, "block_bytes": 2.0**26}
        result = in_time(work, "sampled", capacity=1000, host_blocks=2000, **slow)
        assert result.violation is None
        assert 0 < result.hit_rate < of_an_unlimited_device(work)
        assert min(result.hit_rates.device, result.hit_rates.host, result.hit_rates.shared) > 0
        assert 0 < result.waited.p50 < result.waited.p99 <= result.waited.max


class TestTime:
    """How long requests wait, by hand: blocks of 1,024 bytes."""

    LINES = (
        {"timestamp": 5000, "input_length": 1025, "output_length": 1, "hash_ids": [0, 1, 2]},
        {"timestamp": 15000, "input_length": 1024, "output_length": 1, "hash_ids": [3, 4]},
        {"timestamp": 25000, "input_length": 1025, "output_length": 1, "hash_ids": [0, 1, 5]},
        {"timestamp": 25001, "input_length": 2048, "output_length": 1, "hash_ids": [6, 7, 8, 9]},
    )

    def test_a_request_waits_for_slots_and_for_its_blocks(self) -> None:
        result = in_time(workload_of(list(self.LINES)), capacity=3, host_blocks=8, batch=2, down=1024.0, up=2048.0)
        assert result.violation is None
        # The second evicts the end of the first one's prefix, the third both blocks of the second, and then that end
        # comes up; the fourth is larger than the device.
        assert (result.queued.requests, result.queued.max, result.queued.mean) == (2, 2.0, 1.5)
        assert (result.waited.requests, result.waited.max, result.waited.mean_of_all) == (1, 0.5, 1 / 6)
        assert (result.turned_away, result.requests) == (1, 4)
        assert result.hit_rates.device == result.hit_rates.host == 512 / (1025 + 1024 + 1025 + 2048)
        assert result.moved["down"].bytes == 3 * 1024
        assert (result.moved["up"].transfers, result.moved["up"].bytes) == (1, 1024.0)

    def test_who_is_not_served_does_not_wait(self) -> None:
        result = in_time(workload_of(list(self.LINES[:1])), capacity=1)
        assert (result.turned_away, result.hit_rate, result.waited.max, result.queued.max) == (1, 0, 0, 0)
        assert result.violation is None

    def test_timestamps_may_begin_anywhere(self) -> None:
        late = [{**line, "timestamp": int(line["timestamp"]) + 2**62} for line in self.LINES]  # type: ignore[call-overload]
        shown = [
            in_time(workload_of(list(lines)), capacity=3, host_blocks=8, batch=2, down=1024.0, up=2048.0)
            for lines in (self.LINES, late)
        ]
        assert shown[0].waited == shown[1].waited
        assert shown[0].queued == shown[1].queued

    def test_computing_takes_what_it_is_given(self) -> None:
        # The second comes 10 s after the first, which takes three blocks' time.
        result = in_time(workload_of(list(self.LINES[:2])), block_seconds=5.0)
        assert (result.queued.requests, result.queued.max) == (1, 5.0)
        both = in_time(workload_of(list(self.LINES[:2])), block_seconds=5.0, concurrency=2)
        assert (both.violation, both.queued.requests) == (None, 0)

    def test_workers_find_what_others_gave_to_the_shared_tier(self) -> None:
        def line(at: int, *ids: int) -> dict[str, Any]:
            length = 512 * len(ids) + 1
            return {"timestamp": at, "input_length": length, "output_length": 1, "hash_ids": [*ids, 99 + at]}

        # The first worker's host has room for four of the six blocks that its device evicts.
        first = [line(0, 1, 2), line(2, 3, 4), line(4, 5, 6), line(6, 7, 8)]
        second = [line(1, 20), line(3, 21), line(5, 22), line(7, 1, 2)]
        work = workload_of([one for pair in zip(first, second, strict=True) for one in pair])
        alone = in_time(work, capacity=3, host_blocks=4, workers=2)
        shared = in_time(work, capacity=3, host_blocks=4, workers=2, shared="unlimited")
        assert (alone.violation, alone.hit_rate, alone.moved["stored"].transfers) == (None, 0, 0)
        assert (shared.violation, shared.hit_rate) == (None, shared.hit_rates.shared)
        assert shared.hit_rate == 1024 / work.prompt_tokens
        assert (shared.moved["stored"].transfers, shared.moved["fetched"].bytes) == (3, 2048)

    @pytest.mark.parametrize(
        ("times", "figures"),
        [
            ([], (0, 0, 0, 0, 0, 0, 0, 0)),
            ([0.0, 0.0], (0, 0, 0, 0, 0, 0, 0, 0)),
            ([0.0, 4.0, 2.0, 0.0], (2, 3.0, 2.0, 4.0, 4.0, 1.5, 0.0, 4.0)),
            ([float(n) for n in range(1, 201)], (200, 100.5, 100, 198, 200, 100.5, 100, 198)),
        ],
    )
    def test_figures(self, times: list[float], figures: tuple[float, ...]) -> None:
        waiting = summarize(times)
        of_those = (waiting.requests, waiting.mean, waiting.p50, waiting.p99, waiting.max)
        assert (*of_those, waiting.mean_of_all, waiting.p50_of_all, waiting.p99_of_all) == figures


# Each rule bites.

whole = {
    (of, name): getattr(of, name)
    for of, names in {
        TimedTiers: ["allocate_many", "complete", "evict", "find", "lookup", "register", "ship", "swap_in"],
        HostCache: ["__init__", "begin_read", "store"],
        LinkModel: ["__init__"],
        SharedTier: ["look", "store"],
        TierReplay: ["_finish"],
    }.items()
    for name in names
}


def fault(of: type, name: str) -> Callable[[Callable[..., Any]], tuple[type, str, Callable[..., Any]]]:
    """Make a broken method, which is given the sound one."""

    def make(broken: Callable[..., Any]) -> tuple[type, str, Callable[..., Any]]:
        sound = whole[of, name]
        return of, name, lambda self, *args, **options: broken(sound, self, *args, **options)

    return make


@fault(TimedTiers, "evict")
def frees_before_the_copy(sound: Any, tiers: Any) -> int | None:
    """G1: a slot is free while its copy is in flight."""
    slot: int | None = sound(tiers)
    if slot is not None and slot not in tiers._free:
        tiers._free.append(slot)
    return slot


@fault(TimedTiers, "complete")
def frees_never(sound: Any, tiers: Any) -> Any:
    """P1: a slot is lost at the end of its copy."""
    landed = sound(tiers)
    if landed.promoted is None:
        tiers._free.remove(landed.cargo[0][0])
    return landed


@fault(TimedTiers, "complete")
def forgets_who_waited(sound: Any, tiers: Any) -> Any:
    """G5: what a request waited for arrives for another."""
    landed = sound(tiers)
    return landed if landed.promoted is None else replace(landed, promoted=landed.promoted + 1)


@fault(TimedTiers, "ship")
def mixes_up_a_batch(sound: Any, tiers: Any) -> int | None:
    """P6: what leaves a slot is not what was in it."""
    slots, keys = [slot for slot, _ in tiers._gathered], [key for _, key in tiers._gathered]
    tiers._gathered[:] = zip(slots, reversed(keys), strict=True)
    shipped: int | None = sound(tiers)
    return shipped


@fault(TimedTiers, "ship")
def charges_for_one_block(sound: Any, tiers: Any) -> int | None:
    """G4: a batch moves as fast as a block."""
    size, tiers._block_bytes = tiers._block_bytes, tiers._block_bytes / max(1, len(tiers._gathered))
    shipped: int | None = sound(tiers)
    tiers._block_bytes = size
    return shipped


@fault(TimedTiers, "lookup")
def sees_less(sound: Any, tiers: Any, keys: Sequence[bytes]) -> tuple[int, int]:
    """G5: the host is looked at one block too short."""
    device, host = sound(tiers, keys)
    return device, max(0, host - 1)


@fault(TimedTiers, "swap_in")
def brings_nothing(sound: Any, tiers: Any, request: Any, keys: Any) -> None:
    """G5: nothing is brought back, and all is computed again."""


@fault(TimedTiers, "register")
def registers_elsewhere(sound: Any, tiers: Any, slot: int, key: bytes) -> None:
    """P6: a key is found in a slot that holds something else."""
    sound(tiers, slot, key)
    for other in tiers._keys:
        tiers._found[key] = other
        break


@fault(TimedTiers, "find")
def finds_nothing(sound: Any, tiers: Any, key: bytes) -> None:
    """P6: what is there is not found."""


@fault(TimedTiers, "swap_in")
def gives_away_what_arrives(sound: Any, tiers: Any, request: Any, keys: Any) -> int | None:
    """P1: a slot to which a block is copied is free."""
    transfer: int | None = sound(tiers, request, keys)
    if transfer is not None:
        tiers._free.append(tiers._cargoes[transfer][1][0][0])
    return transfer


@fault(TimedTiers, "swap_in")
def gives_away_next(sound: Any, tiers: Any, request: Any, keys: Any) -> int | None:
    """G1: a slot to which a block is copied is the next to be given away."""
    transfer: int | None = sound(tiers, request, keys)
    if transfer is not None:
        tiers._free.prepend(tiers._cargoes[transfer][1][0][0])
    return transfer


@fault(TimedTiers, "register")
def carries_another_key(sound: Any, tiers: Any, slot: int, key: bytes) -> None:
    """P5: a slot carries another key than it is found under."""
    sound(tiers, slot, key)
    tiers._keys[slot] = key + b"!"


@fault(TimedTiers, "allocate_many")
def gives_too_few(sound: Any, tiers: Any, n: int) -> list[int] | None:
    """P7: fewer slots are given than were asked for."""
    slots: list[int] | None = sound(tiers, n - 1 if n == 3 else n)
    return slots


@fault(HostCache, "store")
def forgets(sound: Any, host: Any, key: bytes) -> Any:
    """G6: what has landed is not there."""
    events = sound(host, key)
    host.order.pop(key)
    return events


@fault(TimedTiers, "register")
def tells_nothing(sound: Any, tiers: Any, slot: int, key: bytes) -> None:
    """G6: a block is stored silently."""
    sound(tiers, slot, key)
    tiers._events.pop()


@fault(TimedTiers, "allocate_many")
def refuses(sound: Any, tiers: Any, n: int) -> list[int] | None:
    """P7: slots are refused that are free."""
    return None if n == 3 else sound(tiers, n)


@fault(HostCache, "__init__")
def keeps_more(sound: Any, host: Any, capacity: int) -> None:
    """G6: the host keeps more than it has room for."""
    sound(host, capacity + 1)


@fault(HostCache, "store")
def evicts_two(sound: Any, host: Any, key: bytes) -> Any:
    """G6: the host evicts more than it must."""
    events = sound(host, key)
    return events + sound(host, key + b"!") if len(host.order) > 3 else events


@fault(HostCache, "begin_read")
def reads_unheld(sound: Any, host: Any, key: bytes) -> None:
    """G5: what is read can be evicted."""
    sound(host, key)
    host.order[key] = None


@fault(LinkModel, "__init__")
def is_too_fast(sound: Any, links: Any, bandwidths: Sequence[float | None], *, now: float) -> None:
    """G2: a link moves twice what it can."""
    sound(links, [bandwidth and 2 * bandwidth for bandwidth in bandwidths], now=now)


@fault(SharedTier, "look")
def sees_what_comes(sound: Any, tier: Any, worker: int, key: bytes) -> bool:
    """G8: a worker sees a block before it has landed."""
    return key in tier._known


@fault(SharedTier, "store")
def stores_again(sound: Any, tier: Any, worker: int, key: bytes) -> Any:
    """G8: what is there is stored again."""
    tier._known.discard(key)
    return sound(tier, worker, key)


def recording(change: Callable[[RequestRecord], RequestRecord]) -> tuple[type, str, Callable[..., Any]]:
    """A worker that tells something else of a request that it has served."""

    def broken(sound: Any, replay: Any, entry: Any) -> None:
        sound(replay, entry)
        replay.records[-1] = change(replay.records[-1])

    return fault(TierReplay, "_finish")(broken)


FAULTS = [
    (frees_before_the_copy, "G1"),
    (frees_never, "P1"),
    (forgets_who_waited, "G5"),
    (mixes_up_a_batch, "P6"),
    (charges_for_one_block, "G4"),
    (sees_less, "G5"),
    (brings_nothing, "G5"),
    (registers_elsewhere, "P6"),
    (tells_nothing, "G6"),
    (refuses, "P7"),
    (keeps_more, "G6"),
    (evicts_two, "G6"),
    (reads_unheld, "G5"),
    (is_too_fast, "G2"),
    (sees_what_comes, "G8"),
    (stores_again, "G8"),
    (finds_nothing, "P6"),
    (gives_away_what_arrives, "P1"),
    (carries_another_key, "P5"),
    (gives_too_few, "P7"),
    (forgets, "G6"),
    (recording(lambda record: replace(record, waited=record.waited + 0.001)), "G5"),
    (recording(lambda record: replace(record, queued=record.queued - 0.001)), "G5"),
    (recording(lambda record: replace(record, finished=record.finished + 0.001)), "G5"),
    (recording(lambda record: replace(record, host_blocks=record.host_blocks + 1)), "G5"),
    (
        recording(
            lambda record: replace(record, host_blocks=record.host_blocks - 1, shared_blocks=record.shared_blocks + 1)
        ),
        "G8",
    ),
    (recording(lambda record: replace(record, device_blocks=record.device_blocks + 99)), "P14"),
    (recording(lambda record: replace(record, name=0)), "G5"),
]

TIGHT = {"capacity": 20, "host_blocks": 24, "batch": 4, "down": 65536.0, "up": 65536.0, "shared": 16384.0}


class TestFaults:
    """A fault in the tiers is found, and named by the rule that it breaks."""

    @pytest.mark.parametrize(("broken", "rule"), FAULTS)
    def test_is_found(
        self, small: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[type, str, Callable[..., Any]], rule: str
    ) -> None:
        work = read_workload(small)
        sound = in_time(work, workers=2, **TIGHT)
        assert sound.violation is None
        monkeypatch.setattr(*broken)
        result = in_time(work, workers=2, **TIGHT)
        assert result.violation is not None
        assert result.violation.rule == rule, result.violation.message

    @pytest.mark.parametrize(
        ("broken", "rule", "capacity", "host", "concurrency"),
        [(gives_away_next, "G1", 20, 24, 1), (reads_unheld, "G6", 30, 8, 3)],
    )
    def test_is_found_by_steps_alone(
        self,
        small: Path,
        monkeypatch: pytest.MonkeyPatch,
        broken: tuple[type, str, Callable[..., Any]],
        rule: str,
        capacity: int,
        host: int,
        concurrency: int,
    ) -> None:
        monkeypatch.setattr(*broken)
        slow = {**TIGHT, "capacity": capacity, "host_blocks": host, "up": 512.0, "concurrency": concurrency}
        result = in_time(read_workload(small), "end", **slow)
        assert result.violation is not None
        assert (result.violation.rule, result.checks) == (rule, 0), result.violation.message

    def test_a_batch_that_is_too_large(self, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sound = WatchedTiers.__init__

        def broken(tiers: WatchedTiers, *args: Any, **options: Any) -> None:
            sound(tiers, *args, **options)
            tiers.batch += 1

        monkeypatch.setattr(WatchedTiers, "__init__", broken)
        result = in_time(read_workload(small), **TIGHT)
        assert result.violation is not None
        assert result.violation.rule == "G4"

    def test_the_last_token_is_not_computed(self, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(replay._Entry, "keys", property(lambda entry: entry.request.keys))
        result = in_time(read_workload(small))
        assert result.violation is not None
        assert result.violation.rule == "P14"

    def test_a_stall(self, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TierReplay, "_enter", lambda *_: False)
        result = in_time(read_workload(small))
        assert result.violation is not None
        assert result.violation.rule == "L1"
        assert result.violation.message.startswith("nothing can run and nothing is on its way: request 0 waits for")

    def test_a_request_is_forgotten(self, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        work = read_workload(small)
        monkeypatch.setattr(TierReplay, "_finish", lambda self, entry: self._inside.pop(entry.request.name))
        result = in_time(work, "end")
        assert result.violation is not None
        assert result.violation.rule == "L1"
        assert result.violation.message == "request 0 was never served"

    def test_an_error_is_a_finding(self, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object) -> None:
            raise KeyError("lost")

        monkeypatch.setattr(SharedAccess, "store", broken)
        result = in_time(read_workload(small), **TIGHT)
        assert result.violation is not None
        assert (result.violation.rule, result.violation.message) == ("error", "the target raised KeyError: 'lost'")
        assert result.requests == result.violation.request + 1 < len(read_workload(small).requests)

    @pytest.mark.parametrize(
        ("done", "rule"),
        [
            ([(0, 8.0, 0.0, 2.0), (1, 8.0, 0.0, 1.5)], "G3"),
            ([(1, 4.0, 0.0, 2.0), (0, 4.0, 0.0, 2.0)], "G3"),
            ([(0, 8.0, 0.0, 1.9)], "G2"),
            ([(0, 8.0, 0.0, 2.1)], "G2"),
            ([(0, 8.0, 0.0, 2.0), (1, 8.0, 1.0, 3.5)], "G2"),
        ],
    )
    def test_a_link_that_breaks_its_rules(self, done: list[tuple[int, float, float, float]], rule: str) -> None:
        completions = [Completion(name, 0, size, begun, at) for name, size, begun, at in done]
        with pytest.raises(Violation) as raised:
            judge_link(Link("up", 4.0, completions))
        assert raised.value.rule == rule

    def test_a_link_that_keeps_its_rules(self) -> None:
        done = [Completion(0, 0, 8.0, 0.0, 3.0), Completion(1, 0, 8.0, 1.0, 4.0), Completion(2, 0, 4.0, 9.0, 10.0)]
        judge_link(Link("up", 4.0, done))
        with pytest.raises(Violation):
            judge_link(Link("up", None, done))


# The command.


class TestCommand:
    """``kvproof workload FILE --tiers``."""

    SLOW = ("--block-bytes", "64KiB", "--down", "1MB/s", "--up", "2MB/s")

    def test_tables_and_plot(self, small: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        picture = tmp_path / "tiers.svg"
        arguments = ["workload", str(small), "--tiers", "--capacity", "20,60,unlimited", "--host-blocks", "0,60"]
        arguments += [*self.SLOW, "--plot", str(picture)]
        assert cli.run(arguments) == 0
        shown = capsys.readouterr().out
        assert "blocks of 65,536 bytes; 0.001 GB/s down, 0.002 GB/s up;" in shown
        assert all(word in shown for word in ("Hit rate", "device", "p99, all", "unlimited", "Moved, in GB", "none"))
        assert "shared" not in shown
        assert "…" not in shown
        first = picture.read_bytes()
        assert first.startswith(b"<?xml")
        assert cli.run(arguments) == 0
        assert picture.read_bytes() == first

    def test_json(self, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["workload", str(small), "--tiers", "--capacity", "20", "--host-blocks", "24", *self.SLOW]
        arguments += ["--shared", "500KB/s", "--workers", "2", "--concurrency", "3", "--batch", "5"]
        arguments += ["--block-ms", "1.5"]
        assert cli.run([*arguments, "--check", "every", "--json", "-"]) == 0
        captured = capsys.readouterr()
        assert "host to shared" in captured.err
        report = json.loads(captured.out)
        (one,) = report["runs"]
        assert one["setting"] == {
            "capacity": 20,
            "host_blocks": 24,
            "block_bytes": 65536.0,
            "batch": 5,
            "down": 1e6,
            "up": 2e6,
            "shared": 5e5,
            "workers": 2,
            "concurrency": 3,
            "block_seconds": 0.0015,
        }
        assert one["hit_rate"] == pytest.approx(sum(one["hit_rates"].values()))
        assert one["moved"]["stored"]["bytes"] == 65536 * one["moved"]["stored"]["transfers"] > 0
        assert one["checks"] > 100
        assert (report["mode"], report["violations"], report["check"]) == ("tiers", 0, "every")

    def test_an_unlimited_host_and_no_time_by_default_on_an_unlimited_device(
        self, small: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.run(["workload", str(small), "--tiers", "--capacity", "unlimited", "--json", "-"]) == 0
        (one,) = json.loads(capsys.readouterr().out)["runs"]
        work = read_workload(small)
        assert one["hit_rate"] == of_an_unlimited_device(work)
        assert one["setting"]["host_blocks"] == work.total_blocks
        assert one["waited"]["max"] == one["queued"]["max"] == 0

    def test_a_violation_says_how_to_see_it_again(
        self, small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(*evicts_two)
        picture = tmp_path / "tiers.png"
        arguments = ["workload", str(small), "--tiers", "--capacity", "20", "--host-blocks", "24", *self.SLOW]
        arguments += ["--shared", "500KB/s", "--workers", "2", "--block-ms", "0.1", "--up", "unlimited"]
        assert cli.run([*arguments, "--plot", str(picture)]) == 1
        assert picture.read_bytes().startswith(b"\x89PNG")
        again = capsys.readouterr().err.partition("again: kvproof ")[2]
        command = shlex.split(again)
        assert "--shared 500000B/s --block-ms 0.1 --limit" in again
        assert "--up unlimited" in again
        assert cli.run(command) == 1
        assert "G6 at capacity 20, host 24:" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--down", "1GB/s"], "--down is about tiers in time; add --tiers, or leave it out"),
            (["--shared", "1GB/s"], "--shared is about tiers in time"),
            (["--workers", "1"], "--workers is about tiers in time"),
            (["--block-ms", "1"], "--block-ms is about tiers in time"),
            (["--tiers", "--target", "spec"], "--target spec has no tiers in time to replay with"),
            (["--tiers", "--target", "vllm==0.33.0"], "--target vllm==0.33.0 has no tiers in time"),
            (["--tiers", "--overlap"], "--overlap does not go with --tiers: requests come at their timestamps"),
            (["--tiers", "--serial"], "--overlap does not go with --tiers"),
            (["--tiers", "--token-ms", "5"], "--token-ms does not go with --tiers"),
            (["--tiers", "--bandwidth", "5"], "--bandwidth does not go with --tiers"),
            (["--tiers", "--base-latency", "5"], "--base-latency does not go with --tiers"),
            (["--tiers", "--free-order", "split"], "--free-order does not go with --tiers"),
            (["--tiers", "--down", "0GB/s"], "--down 0GB/s is no rate above 0; write 25GB/s, 400MiB/s or unlimited"),
            (["--tiers", "--up", "25"], "--up 25 is no rate above 0"),
            (["--tiers", "--shared", "nanB/s", "--host-blocks", "5"], "--shared nanB/s is no rate above 0"),
            (["--tiers", "--block-bytes", "0"], "--block-bytes 0 is no size of a byte or more"),
            (["--tiers", "--block-bytes", "-1"], "--block-bytes -1 is no size"),
            (["--tiers", "--shared", "1GB/s"], "--shared gets what the host evicts, and an unlimited one"),
            (["--tiers", "--shared", "1GB/s", "--host-blocks", "0,9"], "--shared is reached through the host"),
            (["--tiers", "--workers", "1024", "--capacity", "90000"], "--capacity 92160000 is more than"),
            (["--tiers", "--capacity", "0"], "--capacity 0: '0' is no number of blocks"),
            (["--tiers", "--host-blocks", "x"], "--host-blocks x: 'x' is no number of blocks"),
            (["--tiers", "--batch", "0"], "--batch"),
            (["--tiers", "--concurrency", "0"], "--concurrency"),
            (["--tiers", "--block-ms", "-1"], "--block-ms"),
            (["--tiers", "--block-ms", "inf"], "--block-ms"),
            (["--tiers", "--block-ms", "nan"], "--block-ms"),
            (["--tiers", "--plot", "tiers.pdf"], "neither an .svg nor a .png"),
        ],
    )
    def test_what_cannot_be_asked(
        self, small: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
    ) -> None:
        report = small.with_name("report.json")
        assert cli.run(["workload", str(small), "--json", str(report), *arguments]) == 2
        shown = capsys.readouterr()
        assert sentence in shown.err
        assert (shown.out, len(shown.err.splitlines())) == ("", 1)
        assert list(small.parent.iterdir()) == [small]

    def test_nothing_is_left_of_a_plot_that_cannot_be_written(
        self, small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        picture = tmp_path / "tiers.svg"
        picture.write_bytes(b"what was there")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(plot, "write_atomically", full)
        assert cli.run(["workload", str(small), "--tiers", "--capacity", "60", "--plot", str(picture)]) == 2
        assert f"--plot {picture} cannot be written (No space left on device)" in capsys.readouterr().err
        assert picture.read_bytes() == b"what was there"


class TestQuantities:
    """Sizes and rates with units."""

    @pytest.mark.parametrize(
        ("text", "size"),
        [("1", 1), ("65536", 65536), ("64MiB", 2**26), ("2.5MB", 2.5e6), ("1 KB", 1000), ("3B", 3), ("1TiB", 2**40)],
    )
    def test_sizes(self, text: str, size: float) -> None:
        assert parse_bytes("--block-bytes", text) == size

    @pytest.mark.parametrize(
        "text", ["", "0", "0.5B", "1e9", "1e9B", "inf", "64mb", "64M", "B", "1/2B", "²B", "9" * 14]
    )
    def test_no_sizes(self, text: str) -> None:
        with pytest.raises(UsageError):
            parse_bytes("--block-bytes", text)

    @pytest.mark.parametrize(("text", "rate"), [("25GB/s", 25e9), ("0.5KiB/s", 512), ("unlimited", "unlimited")])
    def test_rates(self, text: str, rate: Any) -> None:
        assert parse_rate("--up", text) == rate

    @pytest.mark.parametrize("text", ["", "25", "25GB", "0B/s", "0.0GB/s", "-1GB/s", "1e9B/s", "/s", "25GB/h"])
    def test_no_rates(self, text: str) -> None:
        with pytest.raises(UsageError):
            parse_rate("--up", text)

    def test_times_are_shown_in_a_unit_that_can_be_read(self) -> None:
        times = [0, 1e-12, 3.4e-7, 1e-6, 0.00123456, 0.0999, 0.5, 1, 99.94, 12345.6]
        shown = ["0", "0.00100 ns", "340 ns", "1.00 us", "1.23 ms", "99.9 ms", "500 ms", "1.00 s", "99.9 s", "12,346 s"]
        assert list(map(show_time, times)) == shown

"""Managers of hybrid models in this process: groups of layers with block tables of their own, over one pool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from kvproof.errors import UsageError
from kvproof.testing import BlockManager, Request, assert_lockstep, assert_played
from kvproof.testing.fuzzing import fuzz_manager

from . import pool_faults

import test_hybrid as example  # isort: skip # pool_faults puts its folder on the path
import test_hybrid_offload as hosts  # isort: skip
from hybrid import NULL, HybridPool, Tables  # isort: skip
from hybrid_offload import Hosts, HybridOffload  # isort: skip
from offload import Copies  # isort: skip

assert pool_faults.EXAMPLE.is_dir()


class _OneKey(HybridPool):
    """Both groups name their blocks alike."""

    def of_groups(self, keys: Sequence[bytes]) -> list[list[bytes]]:
        return [[key + b"full" for key in keys]] * 2


class _TooEarly(HybridPool):
    """A block is given up while the next token still attends to its last one."""

    def first(self, tokens: int) -> int:
        return super().first(tokens + 1)


class _FoundByOne(HybridPool):
    """What the window lacks is left out of a hit, and the hit is none the shorter."""

    def found(self, tokens: Sequence[int]) -> Tables:
        full, window = self.of_groups(self.keys(tokens)[: self.most(tokens)])
        longest = next((n for n, key in enumerate(full) if key not in self.cached), len(full))
        return [[self.cached[key] for key in full[:longest]], [self.cached.get(key, NULL) for key in window[:longest]]]


class _ABlockShort(HybridPool):
    """A hit ends a block too early."""

    def found(self, tokens: Sequence[int]) -> Tables:
        return [table[:-1] for table in super().found(tokens)]


class _OneByOne(HybridPool):
    """Who has blocks in one group, and gets none in the other, keeps them."""

    def give(self, name: str, found: Sequence[Sequence[int]], tokens: int) -> bool:
        if name in self.groups and len(full := self.groups[name][0]) < self.need(tokens) and self.num_free:
            full.append(self.take())
        return super().give(name, found, tokens)


class _GivesUpTwice(HybridPool):
    """What was given up stays in the table, and is given back again in the end."""

    def give_up(self, table: list[int], at: int) -> None:
        number = table[at]
        super().give_up(table, at)
        table[at] = number


FAULTS: dict[type[HybridPool], str] = {
    _OneKey: "P6",
    _TooEarly: "P6",
    _FoundByOne: "P6",
    _ABlockShort: "P14 (nothing less)",
    _OneByOne: "P7",
    _GivesUpTwice: "P2",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_hybrid_pool_that_is_wrong_is_found_by_the_rule_that_names_it(fault: type[HybridPool]) -> None:
    kind = type(fault.__name__, (example.TestHybrid,), {"kind": fault})
    fuzzed = fuzz_manager(kind, seconds=30, findings=1)
    assert FAULTS[fault] in fuzzed.broken, fuzzed.broken


class _TellsNothing(BlockManager):
    groups: ClassVar[tuple[int | None, ...]] = (None, 5)
    null_block = NULL

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.pool = HybridPool(blocks, block_tokens, window=5)

    lookup: Any = example.TestHybrid.lookup
    allocate: Any = example.TestHybrid.allocate
    commit: Any = example.TestHybrid.commit
    free: Any = example.TestHybrid.free
    table: Any = example.TestHybrid.table


class _TellsMore(example.TestHybrid):
    """Events, and what blocks say that they carry, by group."""

    def block_keys(self) -> Mapping[int, tuple[bytes, int]]:
        return {block.number: _split(block.key) for block in self.pool.blocks if block.key is not None}

    def take_events(self) -> list[tuple[str, tuple[bytes, int]]]:
        return [(what, _split(key)) for what, key in self.pool.take_events()]


def _split(key: bytes) -> tuple[bytes, int]:
    return key[:16], int(key[16:] == b"window")


@pytest.mark.parametrize("kind", [example.TestHybrid, _TellsNothing, _TellsMore])
def test_a_hybrid_pool_that_is_right_stays_silent(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=300, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.activity.hits > 20
    assert ("P12" in fuzzed.unjudged) == (kind is not _TellsMore)


class _SilentRemoval(_TellsMore):
    def take_events(self) -> list[tuple[str, tuple[bytes, int]]]:
        return [event for event in super().take_events() if event[0] == "stored" or not event[1][1]]


def test_what_events_say_of_a_group_is_judged() -> None:
    assert "P12" in fuzz_manager(_SilentRemoval, seconds=20, findings=1).broken


ONE: list[tuple[str, dict[str, Any]]] = [("start", {"request": "r0", "prompt": [0, 0, 0]})]
SETUP = {"blocks": 2, "block_tokens": 2}


def _told(method: str, answer: Any) -> type[BlockManager]:
    return type("Told", (example.TestHybrid,), {method: lambda *_: answer})


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("allocate", [[1, 2]], r"allocate\(\) answered 1 block tables, and there are 2 groups"),
        ("allocate", [1, 2], r"allocate\(\) answered 1, which is no list of numbers"),
        ("lookup", [[1], []], "what it finds is as long in each group"),
        ("cached", {b"key": 1}, r"cached\(\) told b'key', which is not \(the key of a block, its group\)"),
        ("cached", {(b"key", 2): 1}, r"cached\(\) told group 2, and there are 2"),
    ],
)
def test_what_is_told_by_halves_is_a_sentence(method: str, answer: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_played(_told(method, answer), SETUP, ONE)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"groups": [None, 4]}, r"groups is \[None, 4\]; it is a tuple of windows, as \(None, 128\)"),
        ({"groups": (None, 0)}, r"groups is \(None, 0\); it has, for each group, its window"),
        ({"window": 3}, "instead of a window for all"),
        ({"null_block": None}, "groups has a window; a null_block stands for what is behind it"),
    ],
)
def test_groups_that_make_no_sense_are_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        fuzz_manager(type("Said", (example.TestHybrid,), said), seconds=1)


def test_machine_p_has_no_groups() -> None:
    with pytest.raises(UsageError, match="machine P does nothing of that"):
        assert_lockstep(type("Cached", (example.TestHybrid,), {"dialect": {"free": "append"}}), seconds=1)


def test_a_request_has_what_was_found_for_each_group() -> None:
    seen: list[Any] = []

    class Looks(example.TestHybrid):
        def allocate(self, request: Request, tokens: int) -> Any:
            seen.append(request.found)
            return super().allocate(request, tokens)

    again = ("start", {"request": "r1", "prompt": [0, 0, 0]})
    assert_played(Looks, SETUP, [*ONE, ("finish", {"request": "r0"}), again])
    assert seen == [[[], []], [[1], [3]]]


def test_a_group_whose_blocks_go_too_early_is_told_what_the_null_block_is() -> None:
    early = type("Early", (example.TestHybrid,), {"kind": _TooEarly})
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0, 0]}),
        *(("grow", {"request": "r0", "tokens": [0]}) for _ in range(6)),
    ]
    with pytest.raises(AssertionError, match=r"(?s)is the null block.*groups = \(None, ") as told:
        assert_played(early, {"blocks": 6, "block_tokens": 2}, operations)
    assert "window =" not in str(told.value)


# A host tier


class _OneKeyOnHost(HybridOffload):
    """Both groups name their blocks alike on the host."""

    def found(self, tokens: Sequence[int], held: int) -> Hosts:
        found = self.lookup([key + b"full" for key in self.pool.keys(tokens)[held : self.pool.most(tokens)]])
        return [[*found], [*found]]

    def store_groups(self, tokens: Sequence[int], tables: Tables) -> tuple[list[bytes], Copies]:
        return self.store([key + b"full" for key in self.pool.keys(tokens)], tables[0])


class _FoundByOneOnHost(HybridOffload):
    """What the host lacks of the window is left out of a hit, and the hit is none the shorter."""

    def found(self, tokens: Sequence[int], held: int) -> Hosts:
        full, window = self.pool.of_groups(self.pool.keys(tokens)[held : self.pool.most(tokens)])
        found = self.lookup(full)
        return [[*found], [self.cached.get(key) for key in window[: len(found)]]]


class _WindowTooShort(HybridOffload):
    """The first block of the window is not loaded."""

    def found(self, tokens: Sequence[int], held: int) -> Hosts:
        full, window = super().found(tokens, held)
        at = next((n for n, host in enumerate(window) if host is not None), 0)
        return [full, [*[None] * (at + 1), *window[at + 1 :]]] if len(window) > at + 1 else [full, window]


class _ABlockShortOnHost(HybridOffload):
    """A hit of the host ends a block too early, where it could be longer."""

    def found(self, tokens: Sequence[int], held: int) -> Hosts:
        return super().found(tokens[: -self.pool.block_tokens], held)


class _LoadsOneGroup(HybridOffload):
    """Only full attention is loaded."""

    def loads(self, hosts: Hosts, tables: Tables, held: int) -> Copies:
        return super().loads([hosts[0], [None] * len(hosts[1])], tables, held)


class _Crossed(HybridOffload):
    """Each group is loaded into the other's blocks."""

    def loads(self, hosts: Hosts, tables: Tables, held: int) -> Copies:
        return super().loads(hosts[::-1], tables, held)


class _StoresNothingOfWindows(HybridOffload):
    """Only full attention is stored: nothing that has a window is ever found there."""

    def store_groups(self, tokens: Sequence[int], tables: Tables) -> tuple[list[bytes], Copies]:
        return super().store_groups(tokens, [tables[0], [NULL] * len(tables[1])])


HOST_FAULTS: dict[type[HybridOffload], str] = {
    _OneKeyOnHost: "P6",
    _FoundByOneOnHost: "P6",
    _WindowTooShort: "P6",
    _ABlockShortOnHost: "O6",
    _LoadsOneGroup: "P6",
    _Crossed: "P6",
}


def _on_host(tier: type[HybridOffload], **more: Any) -> type[BlockManager]:
    return type(tier.__name__, (hosts.TestHybridOffload,), {"tier": tier, **more})


@pytest.mark.parametrize("fault", HOST_FAULTS, ids=lambda fault: fault.__name__)
def test_a_host_tier_of_groups_that_is_wrong_is_found_by_the_rule_that_names_it(fault: type[HybridOffload]) -> None:
    fuzzed = fuzz_manager(_on_host(fault), seconds=30, findings=1)
    assert HOST_FAULTS[fault] in fuzzed.broken, fuzzed.broken


class _Slow(HybridOffload):
    """Loads hold the host blocks that they read until they are done."""

    def begin(self, request: Request) -> Copies:
        pairs = self.loads(request.on_host, request.table, len(request.found[0]))
        for host, _ in pairs:
            if self.ref_cnt[host] == 0:
                self.free.remove(host)
            self.ref_cnt[host] += 1
        request.own = [host for host, _ in pairs]
        return pairs

    def end(self, request: Request) -> None:
        for host in request.own:
            self.ref_cnt[host] -= 1
            if self.ref_cnt[host] == 0:
                self.free.append(host)
        request.own = []


class _HoldsNothing(_Slow):
    """Loads hold nothing of the host."""

    def begin(self, request: Request) -> Copies:
        return self.loads(request.on_host, request.table, len(request.found[0]))

    def end(self, request: Request) -> None:
        pass


class _Loads(hosts.TestHybridOffload):
    tier: ClassVar[type[HybridOffload]] = _Slow
    offload: _Slow

    def load(self, request: Request) -> Copies:
        return self.offload.begin(request)

    def loaded(self, request: Request, tokens: int) -> None:
        assert tokens == request.cached, "no copy fails"
        self.offload.end(request)

    def reset(self) -> bool:
        return not any(self.offload.ref_cnt) and super().reset()


@pytest.mark.parametrize("kind", [hosts.TestHybridOffload, _Loads])
def test_a_host_tier_of_groups_that_is_right_stays_silent(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=200, seconds=60)
    assert fuzzed.broken == {}
    assert not {"O3", "O6", "O8", "P14"} & fuzzed.unjudged.keys()


def test_a_host_tier_may_store_less() -> None:
    assert fuzz_manager(_on_host(_StoresNothingOfWindows), examples=60, seconds=60).broken == {}


def test_host_blocks_that_a_load_of_groups_reads_are_held() -> None:
    shows = type("Shows", (_Loads,), {"tier": _HoldsNothing})
    assert "O1 (host counts)" in fuzz_manager(shows, seconds=30, findings=1).broken
    hidden = {name: getattr(BlockManager, name) for name in ("host_ref_counts", "host_free_queue")}
    fuzzed = fuzz_manager(type("Hides", (shows,), hidden), examples=2000, seconds=90, findings=1, seed=3)
    assert "O8" in fuzzed.broken, fuzzed.broken


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([0], r"host_lookup\(\) answered 0, which is no list of host blocks"),
        ([[0]], r"host_lookup\(\) answered 1 block tables, and there are 2 groups"),
        ([[0], []], "as long in each group, with None for what is behind a window"),
    ],
)
def test_what_a_host_has_is_told_for_each_group(answer: Any, words: str) -> None:
    kind = type("Told", (hosts.TestHybridOffload,), {"host_lookup": lambda *_: answer})
    with pytest.raises(AssertionError, match=words):
        assert_played(kind, SETUP | {"host_blocks": 2}, ONE)


# Calls that overlap


class _Overlaps(example.TestHybrid):
    """Each call waits before it does anything, and does it at once."""

    async def lookup(self, request: Request) -> list[list[int]]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().lookup(request)

    async def allocate(self, request: Request, tokens: int) -> list[list[int]] | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().allocate(request, tokens)

    async def free(self, request: Request) -> None:  # type: ignore[override]
        super().free(request)
        await asyncio.sleep(0)


class _LooksOnce(_Overlaps):
    """Whether there is room is asked before something is waited for."""

    async def allocate(self, request: Request, tokens: int) -> list[list[int]] | None:  # type: ignore[override]
        held = self.pool.groups.get(request.name) or request.found or [[], []]
        if sum(self.pool.need(tokens) - len(table) for table in held) > self.pool.num_free:
            return None
        await asyncio.sleep(0)
        self.pool.num_free += 1000
        try:
            return example.TestHybrid.allocate(self, request, tokens)
        finally:
            self.pool.num_free -= 1000


def test_calls_of_groups_overlap() -> None:
    fuzzed = fuzz_manager(_Overlaps, examples=200, seconds=60)
    assert fuzzed.broken == {}
    assert fuzz_manager(_LooksOnce, seconds=30, findings=1).broken

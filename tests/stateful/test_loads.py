"""Loads that take time: who waits for one is judged, and what is read and written meanwhile; through a driver, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pytest

from kvproof.engines.driver import conformance
from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Session
from kvproof.errors import UsageError
from kvproof.testing import BlockManager, Request, assert_played
from kvproof.testing.fuzzing import fuzz_manager

from . import pool_faults

import test_loads as example  # isort: skip # pool_faults puts its folder on the path
from loads import SlowOffload  # isort: skip

assert pool_faults.EXAMPLE.is_dir()


class _TellsNoCounts(example.TestLoads):
    """What holds a block shows in what becomes of it."""

    ref_counts: Any = BlockManager.ref_counts
    free_queue: Any = BlockManager.free_queue
    num_free: Any = BlockManager.num_free
    host_ref_counts: Any = BlockManager.host_ref_counts
    host_free_queue: Any = BlockManager.host_free_queue
    dialect: ClassVar = {"keep": "all"}


class _NoPins(SlowOffload):
    """Who stores may take the host blocks that somebody loads."""

    def begin(self, name: str, hosts: Sequence[int]) -> None:
        super().begin(name, [])


class _KeepsAPin(SlowOffload):
    """The last host block of a load stays held."""

    def end(self, name: str) -> None:
        self.loading[name].pop()
        super().end(name)


class _PinsOnce(SlowOffload):
    """Of two who load one host block the first one holds it, for both."""

    def begin(self, name: str, hosts: Sequence[int]) -> None:
        super().begin(name, [host for host in hosts if self.ref_cnt[host] == 0])


class _FoundEarly(example.TestLoads):
    """What will be there can be found when the load begins."""

    def load(self, request: Request) -> Any:
        self.pool.computed(request.name, request.tokens[: request.cached], request.salt)
        return super().load(request)


class _FailedIsThere(example.TestLoads):
    """What did not come can be found as well."""

    def loaded(self, request: Request, tokens: int) -> None:
        super().loaded(request, tokens)
        self.pool.computed(request.name, request.tokens[: request.cached], request.salt)


class _FailedKeepsPins(example.TestLoads):
    """A load that fails goes on holding the host's blocks."""

    def loaded(self, request: Request, tokens: int) -> None:
        if tokens == request.cached:
            super().loaded(request, tokens)


def _with(tier: type[SlowOffload], base: type[example.TestLoads] = example.TestLoads) -> type[example.TestLoads]:
    return type(tier.__name__, (base,), {"tier": tier})


FAULTS: dict[type[BlockManager], str] = {
    _with(_NoPins): "O1 (host counts)",
    _with(_KeepsAPin): "O1 (host counts)",
    _FoundEarly: "P6",
    _FailedIsThere: "P6",
    _FailedKeepsPins: "O1 (host counts)",
    _with(_NoPins, _TellsNoCounts): "O8",
    _with(_PinsOnce, _TellsNoCounts): "O8",
}


@pytest.mark.parametrize("kind", [example.TestLoads, _TellsNoCounts])
def test_loads_that_are_right_stay_silent(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=400, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.activity.external_tokens
    assert fuzzed.report.coverage["loaded"] > 20


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_load_that_is_wrong_is_found_by_the_rule_that_names_it(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=2000, seconds=60, findings=1)
    assert FAULTS[kind] in fuzzed.broken, fuzzed.broken


LOADING: list[tuple[str, dict[str, Any]]] = [
    ("start", {"request": "r0", "prompt": [0, 0, 0]}),
    ("mirror", {"requests": []}),
    ("finish", {"request": "r0"}),
    ("start", {"request": "r1", "prompt": [1, 1, 1, 1]}),
    ("mirror", {"requests": []}),
    ("finish", {"request": "r1"}),
    ("start", {"request": "r2", "prompt": [0, 0, 0]}),
]
SETUP = {"blocks": 2, "block_tokens": 2, "host_blocks": 4}


class _Listens(example.TestLoads):
    """It notes when its requests are told to be loaded, and are freed."""

    heard: ClassVar[list[tuple[str, str, int]]] = []

    def loaded(self, request: Request, tokens: int) -> None:
        self.heard.append((request.name, "loaded", tokens))
        super().loaded(request, tokens)

    def free(self, request: Request) -> None:
        self.heard.append((request.name, "freed", request.computed))
        super().free(request)


def _heard(*after: tuple[str, dict[str, Any]]) -> list[tuple[str, str, int]]:
    _Listens.heard.clear()
    assert_played(_Listens, SETUP, [*LOADING, *after])
    return [each for each in _Listens.heard if each[0] == "r2"]


def test_who_loads_does_nothing_else_and_is_freed_when_the_load_has_ended() -> None:
    waits: list[tuple[str, dict[str, Any]]] = [
        ("step", {"request": "r2", "most": 0}),
        ("preempt", {"request": "r2"}),
        ("finish", {"request": "r2"}),
    ]
    assert _heard(*waits) == []
    assert _heard(("abort", {"request": "r2"}), ("abort", {"request": "r2"})) == []
    ended = [("loaded", {"pick": 0, "failed": 0}), ("loaded", {"pick": 0, "failed": 0})]
    assert _heard(("abort", {"request": "r2"}), *ended) == [("r2", "loaded", 2), ("r2", "freed", 0)]
    assert _heard(*ended, ("finish", {"request": "r2"})) == [("r2", "loaded", 2), ("r2", "freed", 3)]


def test_what_fails_is_computed_by_a_later_step() -> None:
    failed = ("loaded", {"pick": 0, "failed": 2})
    assert _heard(failed, ("finish", {"request": "r2"})) == [("r2", "loaded", 0), ("r2", "freed", 0)]
    step = ("step", {"request": "r2", "most": 0})
    assert _heard(failed, step, ("finish", {"request": "r2"})) == [("r2", "loaded", 0), ("r2", "freed", 3)]


def test_what_takes_time_and_what_forks_speaks_the_protocol() -> None:
    for name in ("test_loads.py:TestLoads", "test_forks.py:TestForks"):
        with Session.of(Driver.of(f"python:{pool_faults.EXAMPLE / name}")) as session:
            assert conformance.check(session).failed == []


def test_loads_that_take_time_come_with_stores_that_do() -> None:
    kind = type("Half", (example.TestLoads,), {"stored": BlockManager.stored})
    with pytest.raises(UsageError, match=r"Half has loaded\(\); it comes with load\(\), and with stored\(\)"):
        fuzz_manager(kind, seconds=1)


class _LeastRecent(example.TestLoads):
    dialect: ClassVar = {"keep": "all", "host_evicts": "lru"}


class _FirstStored(SlowOffload):
    """What came first goes first, however often it was brought back since."""

    def lookup(self, keys: Iterable[bytes]) -> list[int]:
        before = [*self.cached]
        found = super().lookup(keys)
        for key in before:
            self.cached.move_to_end(key)
        return found


def test_what_was_brought_back_is_used_where_that_takes_time_too() -> None:
    assert fuzz_manager(_LeastRecent, examples=200, seconds=60).broken == {}
    fifo = type("FirstStored", (_LeastRecent,), {"tier": _FirstStored})
    assert {*fuzz_manager(fifo, examples=None, seconds=60, findings=1).broken} == {"O12"}

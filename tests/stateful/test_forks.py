"""Requests that fork: what children share and copy is judged, through an adapter and through a driver."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from kvproof.errors import UsageError
from kvproof.testing import BlockManager, Request, assert_played
from kvproof.testing.fuzzing import fuzz_manager

from . import fork_faults
from .fork_faults import FAULTS, UNTOLD

import test_forks as example  # isort: skip # fork_faults puts its folder on the path
from forks import ForkPool  # isort: skip
from pool import Pool  # isort: skip


class _TellsNothing(BlockManager):
    """The adapter without what it tells of its pool."""

    kind: ClassVar[type[ForkPool]] = ForkPool

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.pool = self.kind(blocks, block_tokens)

    lookup: Any = example.TestForks.lookup
    allocate: Any = example.TestForks.allocate
    commit: Any = example.TestForks.commit
    free: Any = example.TestForks.free
    fork: Any = example.TestForks.fork
    take_copies: Any = example.TestForks.take_copies


def test_forks_that_are_right_stay_silent() -> None:
    fuzzed = fuzz_manager(example.TestForks, examples=300, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.unjudged == {"P4": "there is no null_block", "E3": "there is no take_events() with tokens"}
    assert fuzz_manager(_TellsNothing, examples=100, seconds=60).broken == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fork_that_is_wrong_is_found_by_the_rule_that_names_it(fault: type[Pool]) -> None:
    kind = type(fault.__name__, (example.TestForks,), {"kind": fault})
    fuzzed = fuzz_manager(kind, seconds=20, findings=1)
    assert FAULTS[fault] in fuzzed.broken, fuzzed.broken


@pytest.mark.slow
@pytest.mark.parametrize("fault", UNTOLD, ids=lambda fault: fault.__name__)
def test_so_it_is_where_the_pool_tells_nothing_of_itself(fault: type[Pool]) -> None:
    kind = type(fault.__name__, (_TellsNothing,), {"kind": fault})
    fuzzed = fuzz_manager(kind, seconds=30, findings=2)
    assert UNTOLD[fault] in fuzzed.broken, fuzzed.broken


class _TwoSlips(example.TestForks):
    """Counts a holder too few where a request forks, and another one where a block is evicted."""

    def fork(self, request: Request, child: Request) -> list[int]:
        table = super().fork(request, child)
        self.pool.blocks[table[0]].ref_cnt -= 1
        return table

    def evict(self, block: int) -> None:
        super().evict(block)
        self.pool.blocks[block].ref_cnt -= 1


def test_two_causes_with_one_symptom_are_two_by_what_they_need() -> None:
    fuzzed = fuzz_manager(_TwoSlips, seconds=20, findings=8, seed=1)
    counts = [set(finding.needs) for finding in fuzzed.report.findings if finding.violation.rule == "P2"]
    assert {"a fork"} in counts
    assert {"an eviction by name"} in counts
    assert any("it needs: a fork" in text for text in fuzzed.broken["P2"])


FORKED: list[tuple[str, dict[str, Any]]] = [
    ("start", {"request": "r0", "prompt": [0, 0, 0]}),
    ("fork", {"request": "r0", "child": "r1"}),
    ("grow", {"request": "r0", "tokens": [1]}),
    ("grow", {"request": "r1", "tokens": [2]}),
]
SETUP = {"blocks": 4, "block_tokens": 2, "events": True}


def test_the_story_says_who_is_a_fork_of_whom() -> None:
    assert_played(example.TestForks, SETUP, FORKED)
    kind = type("Shared", (example.TestForks,), {"kind": fork_faults.WritesToShared})
    with pytest.raises(AssertionError, match=r"2 fork: entry 1 of the table of r1 .*; the fork r1 gets it"):
        assert_played(kind, SETUP, FORKED)


def test_what_a_fork_is_given_is_judged_at_once_and_not_taken_for_a_lookup() -> None:
    kind = type("Less", (example.TestForks,), {"kind": fork_faults.LastIsNotShared})
    with pytest.raises(AssertionError, match=r"(?s)a fork handed out block .* arrives with 3 tokens, as a fork of r0"):
        assert_played(kind, SETUP, FORKED[:2])


class _Refuses(example.TestForks):
    """A fork is refused, and has happened in part."""

    def fork(self, request: Request, child: Request) -> Any:
        super().fork(request, child)


class _Takes(example.TestForks):
    """A fork is refused, and has taken a block."""

    def fork(self, request: Request, child: Request) -> Any:
        self.pool.take()


@pytest.mark.parametrize("kind", [_Refuses, _Takes])
def test_a_fork_that_is_refused_changes_nothing(kind: type[BlockManager]) -> None:
    with pytest.raises(AssertionError, match="fork is refused, and "):
        assert_played(kind, SETUP, FORKED[:2])


def test_a_fork_is_of_one_who_has_computed_all_and_has_a_name_of_its_own() -> None:
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0], "most": 1}),
        ("fork", {"request": "r0", "child": "r1"}),
        ("step", {"request": "r0", "most": 0}),
        ("fork", {"request": "r0", "child": "r0"}),
        ("fork", {"request": "r2", "child": "r3"}),
    ]

    class Never(example.TestForks):
        def fork(self, request: Request, child: Request) -> Any:
            raise AssertionError(f"{request.name}, {child.name}")

    assert_played(Never, SETUP, operations)


class _Waits(example.TestForks):
    """Its calls wait, and others go on meanwhile."""

    async def allocate(self, request: Request, tokens: int) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().allocate(request, tokens)

    async def fork(self, request: Request, child: Request) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().fork(request, child)


class _WaitsForCopies(_Waits):
    async def take_copies(self) -> Any:  # type: ignore[override]
        return super().take_copies()


def test_copies_are_told_where_calls_overlap_too() -> None:
    assert fuzz_manager(_Waits, examples=200, seconds=60).broken == {}
    wrong = type("Shared", (_Waits,), {"kind": fork_faults.WritesToShared})
    assert "P6" in fuzz_manager(wrong, seconds=20, findings=1).broken
    with pytest.raises(UsageError, match=r"take_copies\(\) is async def"):
        fuzz_manager(_WaitsForCopies, seconds=1)


class _Reuses(example.TestForks):
    """It finds a part of a block, and copies that: of the block behind what was found, as far as it is the same."""

    tenants: ClassVar[tuple[str, ...]] = ()

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.holds: dict[int, tuple[int, ...]] = {}

    def commit(self, request: Request, tokens: int) -> None:
        super().commit(request, tokens)
        size = self.pool.block_tokens
        for at, block in enumerate(request.table[: tokens // size]):
            self.holds[block] = tuple(request.tokens[: (at + 1) * size])

    def part(self, request: Request) -> tuple[int, int]:
        """The cached block that goes on as the request does for longest, and for how many tokens."""
        begin, size = len(request.found) * self.pool.block_tokens, self.pool.block_tokens
        best = (0, 0)
        for block in self.pool.cached.values():
            held = self.holds[block]
            if held[:begin] == tuple(request.tokens[:begin]) and len(held) == begin + size:
                rest = zip(held[begin:], request.tokens[begin:-1], strict=False)
                same = next((n for n, (a, b) in enumerate(rest) if a != b), min(size, len(request.tokens) - begin - 1))
                best = max(best, (same, block))
        return best

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        if request.name in self.pool.tables:
            return super().allocate(request, tokens)
        same, block = self.part(request)
        begin = len(request.found) * self.pool.block_tokens
        table = super().allocate(request, max(tokens, begin + same + 1))
        if table is not None and same:
            self.pool.copies.append((block, table[len(request.found)]))
            request.cached = begin + same
        return table


class _ReusesTooMuch(_Reuses):
    def part(self, request: Request) -> tuple[int, int]:
        same, block = super().part(request)
        more = same and same + 1 < min(self.pool.block_tokens, len(request.tokens) - 1)
        return same + bool(more), block


def test_a_part_of_a_block_that_is_found_and_copied_is_judged() -> None:
    assert fuzz_manager(_Reuses, examples=300, seconds=60).broken == {}
    assert "P6" in fuzz_manager(_ReusesTooMuch, seconds=20, findings=1).broken

"""Calls of an asynchronous prefix tree that overlap: what that brings about is found, who is right stays silent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from kvproof.engines.verdicts import judged_in
from kvproof.errors import UsageError
from kvproof.judge.record import Answer, Case
from kvproof.testing import PrefixTree, assert_played
from kvproof.testing.fuzzing import fuzz_manager
from kvproof.testing.session import InProcess
from kvproof.testing.subjects import subject_of
from kvproof.testing.tree_system import LEVEL

from .async_tree_faults import FAULTS, AdoptsByAStaleWalk, Found, FoundThenLocked, LockedForNobody
from .async_trees import AtOnce, Joins, Looks, Pins

from async_radix import AsyncRadix  # isort: skip
from radix import Node  # isort: skip
import test_async_radix as example  # isort: skip
import test_radix  # isort: skip

SETUP = {"blocks": 5, "block_tokens": 1}

Operations = list[tuple[str, dict[str, Any]]]


def driven(tree: type[AsyncRadix], **more: Any) -> type[example.TestAsyncRadix]:
    return type(tree.__name__, (example.TestAsyncRadix,), {"kind": tree, **more})


def played(kind: type[PrefixTree], operations: Operations) -> tuple[str | None, Answer]:
    """The rule that a sequence of operations breaks, with what notices it, and what was told."""
    found, answer = judged_in(InProcess(kind), subject_of(kind).more_oracles)(Case(LEVEL, SETUP, operations), ())
    return (None if found is None else f"{found.violation.rule} {found.violation.oracle}"), answer


def orders(
    operations: Operations, behind: Sequence[tuple[str, dict[str, Any]]] = (), *, length: int = 7, who: int = 2
) -> list[Operations]:
    """These operations, with calls going on together in every order of so many turns."""
    return [[*operations, ("together", {"order": [*order]}), *behind] for order in product(range(who), repeat=length)]


# ------------------------------------------------------------------------------------------------------ what is found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_that_only_overlapping_calls_bring_about_is_found(fault: type[AsyncRadix]) -> None:
    fuzzed = fuzz_manager(driven(fault), examples=2000, seconds=300, findings=1)
    assert FAULTS[fault] & fuzzed.broken.keys(), fuzzed.broken


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_and_not_by_one_call_after_the_other(fault: type[AsyncRadix]) -> None:
    fuzzed = fuzz_manager(driven(fault, overlaps=False), examples=60, seconds=60)
    assert fuzzed.broken == {}
    assert "together" not in fuzzed.report.coverage


# -------------------------------------------------------------------------------------------------- what stays silent


def without(*methods: str) -> type[example.TestAsyncRadix]:
    """The example's tree, which can do less, or tells less."""
    return driven(AsyncRadix, **{method: getattr(PrefixTree, method) for method in methods})


_BY_PARTS = ("match_and_lock", "check_in")
_TELLS = ("children", "edge", "evictable_size", "protected_size")

ByParts = without(*_BY_PARTS)
TellsNothing = without(*_BY_PARTS, *_TELLS)
WithoutLocks = without(*_BY_PARTS, *_TELLS, "lock", "unlock")
"""What is read may be evicted there, so it is asked to evict only while nobody runs."""


parts = {method: getattr(PrefixTree, method) for method in _BY_PARTS}
OTHERS = [driven(AtOnce), driven(Looks), driven(Pins), driven(Joins, order=None)]
OTHERS += [type(f"{kind.__name__}ByParts", (kind,), parts) for kind in OTHERS]


@pytest.mark.parametrize("kind", [example.TestAsyncRadix, ByParts, TellsNothing, WithoutLocks, *OTHERS])
def test_a_tree_that_is_right_stays_silent(kind: type[PrefixTree]) -> None:
    fuzzed = fuzz_manager(kind, examples=300, seconds=120)
    assert fuzzed.broken == {}
    assert fuzzed.report.examples >= 300
    assert fuzzed.report.coverage["together"] > 300
    assert fuzzed.report.activity.hits


BRANCHED: Operations = [
    ("start", {"request": "r0", "prompt": [0, 0, 0]}),
    ("finish", {"request": "r0"}),
]
"""Three tokens are there, and nobody holds them."""


def test_what_a_match_finds_stays_until_it_is_locked() -> None:
    """By two calls nobody can hold what is found: nothing is evicted between them. By one call it must be held."""
    operations: Operations = [
        *BRANCHED,
        ("begin", {"op": "start", "request": "r1", "prompt": [0, 0, 0, 0]}),
        ("begin", {"op": "evict", "tokens": 4}),
    ]
    assert {played(ByParts, each)[0] for each in orders(operations)} == {None}
    assert {played(driven(FoundThenLocked), each)[0] for each in orders(operations)} == {
        None,
        "R4 a match of what is not there",
    }


def test_of_equal_tokens_the_tree_takes_those_of_one() -> None:
    operations: Operations = [
        ("begin", {"op": "start", "request": "r0", "prompt": [0, 0]}),
        ("begin", {"op": "start", "request": "r1", "prompt": [0, 0]}),
    ]
    asked = [("start", {"request": "r2", "prompt": [0, 0, 0]})]
    assert {played(example.TestAsyncRadix, each)[0] for each in orders(operations, asked)} == {None}
    told = {played(driven(AdoptsByAStaleWalk), each)[0] for each in orders(operations, asked)}
    assert told == {None, "R5 what an insert is said to find"}


class _Odd(example.TestAsyncRadix):
    """Wrong from the first call on, whoever is beside it."""


class _FindsTooMuch(_Odd):
    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        slots, node = await super().match_and_lock(tokens, namespace)
        return [*slots, *(slots[-1:] * len(tokens))], node


class _FindsOthers(_Odd):
    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        slots, node = await super().match_and_lock(tokens, namespace)
        return slots[::-1], node


class _ChecksInLess(_Odd):
    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], node: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        had, found, new = await super().check_in(tokens, slots, node, namespace)
        return had, found[:-1], new


class _HadNothing(_Odd):
    async def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        await super().insert(tokens, slots, namespace)
        return 0


class _FreesWhatIsNoTrees(_Odd):
    async def evict(self, tokens: int) -> list[int]:
        return [*await super().evict(tokens), 4]


class _FreesOneTwice(_Odd):
    async def evict(self, tokens: int) -> list[int]:
        return await super().evict(tokens) * 2


class _FreesWhatIsLocked(_Odd):
    async def evict(self, tokens: int) -> list[int]:
        return [0]


class _FreesAParent(_Odd):
    async def evict(self, tokens: int) -> list[int]:
        return (await super().evict(tokens))[:1]


class _FreesAPart(_Odd):
    """Of a page of two tokens."""

    async def evict(self, tokens: int) -> list[int]:
        return (await super().evict(tokens))[:-1]


GROW: Operations = [("begin", {"op": "start", "request": "r1", "prompt": [0, 0, 0, 1]}), ("together", {})]
EVICT: Operations = [("begin", {"op": "evict", "tokens": 1}), ("together", {})]


@pytest.mark.parametrize(
    ("kind", "operations", "rule"),
    [
        (_FindsTooMuch, BRANCHED + GROW, "R4 a match within a page"),
        (_FindsOthers, BRANCHED + GROW, "R4 slots of something else"),
        (_ChecksInLess, GROW, "R4 a match stops short"),
        (
            _HadNothing,
            [BRANCHED[0], ("begin", {"op": "again"}), ("together", {})],
            "R5 what an insert is said to find",
        ),
        (_FreesWhatIsNoTrees, BRANCHED + EVICT, "R2 freed twice"),
        (_FreesOneTwice, BRANCHED + EVICT, "R2 freed twice"),
        (_FreesWhatIsLocked, [BRANCHED[0], *EVICT], "R6 evicts what is locked"),
        (_FreesAParent, BRANCHED + EVICT, "R6 evicts what has a child"),
    ],
)
def test_what_is_wrong_in_any_order_is_told(kind: type[PrefixTree], operations: Operations, rule: str) -> None:
    told = played(kind, operations)[0]
    # What holds the KV of other tokens breaks P6 first, by what is read.
    assert told in (rule, "P6 a lookup handed out"), told
    assert played(example.TestAsyncRadix, operations)[0] is None
    fuzzed = fuzz_manager(kind, examples=100, seconds=60, findings=1)
    assert fuzzed.broken


def test_a_part_of_a_page_is_no_page() -> None:
    operations: Operations = [("start", {"request": "r0", "prompt": [0, 0]}), ("finish", {"request": "r0"}), *EVICT]
    with pytest.raises(AssertionError, match=r"R1 a part of a page"):
        assert_played(_FreesAPart, {"blocks": 3, "block_tokens": 2}, operations)


# --------------------------------------------------------------------------------------------------- what can be said


def test_what_a_cancelled_call_promises_can_be_said() -> None:
    assert fuzz_manager(driven(LockedForNobody, cancelled=None), examples=200, seconds=60).broken == {}
    with pytest.raises(UsageError, match="cancelled is 'freed'; there are undone and None"):
        InProcess(driven(AsyncRadix, cancelled="freed"))
    with pytest.raises(UsageError, match=r"match_and_lock\(\); it comes with lock\(\) and unlock\(\)"):
        InProcess(driven(AsyncRadix, lock=PrefixTree.lock, unlock=PrefixTree.unlock))


class _OnlyEvicts(test_radix.TestRadix):
    """One of its calls waits."""

    async def evict(self, tokens: int) -> list[int]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().evict(tokens)


def test_only_what_is_asynchronous_and_says_nothing_else_overlaps() -> None:
    def operations(kind: type[PrefixTree]) -> list[str]:
        return InProcess(kind).hello.capabilities[LEVEL].operations

    assert "together" in operations(example.TestAsyncRadix)
    assert "together" in operations(_OnlyEvicts)
    assert "together" not in operations(driven(AsyncRadix, overlaps=False))
    assert "together" not in operations(test_radix.TestRadix)


def test_calls_overlap_and_each_kind_is_cancelled() -> None:
    outcomes: set[str] = set()
    for at in range(6):
        operations: Operations = [
            *BRANCHED,
            ("start", {"request": "r1", "prompt": [1]}),
            ("begin", {"op": "start", "request": "r2", "prompt": [0, 0, 1, 1]}),
            ("begin", {"op": "finish", "request": "r1"}),
            ("together", {"order": [0, 1, 0], "cancel": [0, at]}),
            ("drain", {}),
        ]
        rule, answer = played(ByParts, operations)
        assert rule is None
        outcomes |= {effect[2] for effect in answer.steps[-2].effects if effect[0] == "turn"}
        assert isinstance(answer.steps[-1].result, dict)
        assert answer.steps[-1].result["left"] == 0
    cancelled = {outcome.partition(" ")[0] for outcome in outcomes if outcome.endswith("is cancelled there")}
    assert cancelled >= {"match", "lock"}

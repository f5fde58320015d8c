"""Prefix trees in this process: planted faults are found by the rule that names them, and nothing else is found."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Session, WorkerError
from kvproof.errors import UsageError
from kvproof.judge.sight import OF_TREES
from kvproof.testing import PrefixTree, Refused, assert_fuzzed, assert_lockstep, assert_played
from kvproof.testing.fuzzing import fuzz_manager
from kvproof.testing.telling import regression_test

from . import tree_faults
from .tree_faults import FAULTS

from radix import Node, Radix  # isort: skip # tree_faults puts its folder on the path
import test_radix as example  # isort: skip


def driven(tree: type[Radix]) -> type[PrefixTree]:
    return type(tree.__name__, (example.TestRadix,), {"kind": tree})


# ------------------------------------------------------------------------------------------------ what is wrong


LONG = ("FreesTwice", "SharesNamespaces", "EvictsInnerNodes", "LosesSlots")
"""Those that CI looks for."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=pytest.mark.slow if f.__name__ in LONG else ()) for f in FAULTS],
    ids=lambda fault: fault.__name__,
)
def test_a_planted_fault_is_found_by_the_rule_that_names_it(fault: type[Radix]) -> None:
    began = time.process_time()
    fuzzed = fuzz_manager(driven(fault), seconds=60, findings=1)
    assert FAULTS[fault] in fuzzed.broken, fuzzed.broken
    assert time.process_time() - began < 10


class _Strict(Radix):
    """A tree that may not be asked to evict more than it can."""

    def evict(self, wanted: int) -> list[int]:
        assert wanted <= self.evictable
        return super().evict(wanted)


class _AskedForWhatThereIs(example.TestRadix):
    """Its adapter, as docs/testing.md has it."""

    kind = _Strict

    def evict(self, tokens: int) -> list[int]:
        return super().evict(min(tokens, self.tree.evictable))


def test_a_tree_is_asked_for_more_than_it_can_evict_unless_its_adapter_asks_for_less() -> None:
    assert {*fuzz_manager(driven(_Strict), seconds=60, findings=1).broken} == {"L2"}
    for seed in range(3):
        assert not fuzz_manager(_AskedForWhatThereIs, examples=60, seconds=60, seed=seed).broken


def test_a_lock_that_is_not_released_is_told_once_and_not_as_an_order_of_eviction_too() -> None:
    fuzzed = fuzz_manager(driven(tree_faults.UnlocksOneNode), examples=400, seconds=60)
    assert {*fuzzed.broken} == {"R3"}


@pytest.mark.parametrize(
    ("fault", "rule"),
    [(tree_faults.SilentRemoval, "R8"), (tree_faults.ChildrenFirst, "R8"), (tree_faults.LeavesALock, "R7")],
)
def test_events_and_check_ins_of_the_trees_own_are_judged(fault: type[PrefixTree], rule: str) -> None:
    assert rule in fuzz_manager(fault, seconds=60, findings=1).broken


class _Least(PrefixTree):
    """All that is needed."""

    kind: type[Radix] = Radix

    def __init__(self, slots: int, page_tokens: int) -> None:
        self.tree = self.kind(page_tokens)

    def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        return self.tree.match(tokens, namespace)

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        return self.tree.insert(tokens, slots, namespace)


@pytest.mark.parametrize(
    ("fault", "rule"),
    [(tree_faults.NeverHits, "R4"), (tree_faults.SplitMixesSlots, "R4"), (tree_faults.ForgetsDuplicates, "R5")],
)
def test_faults_are_found_in_a_tree_that_tells_nothing(fault: type[Radix], rule: str) -> None:
    kind = type(fault.__name__, (_Least,), {"kind": fault})
    assert rule in fuzz_manager(kind, seconds=10, findings=1).broken


class _Cyclic(example.TestRadix):
    """Its nodes are children of one another."""

    def children(self, node: Node | None) -> Iterator[Node]:
        yield from super().children(None)


class _MatchesMore(example.TestRadix):
    """A match is rounded up to the node's end: it may be longer than what was asked for."""

    def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        slots, node = super().match(tokens, namespace)
        (below,) = node.children.values() if len(node.children) == 1 else (None,)
        return (slots, node) if below is None else (slots + below.slots, below)


def test_a_match_that_is_longer_than_the_request_is_no_garbage() -> None:
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0] * 8}),
        ("start", {"request": "r1", "prompt": [0] * 3}),
    ]
    with pytest.raises(AssertionError, match="of 2 tokens of r1 a match returns 8, and the tree has 2"):
        assert_played(_MatchesMore, {"blocks": 12, "block_tokens": 1}, operations)


def test_a_walk_that_never_ends_is_ended() -> None:
    assert {"R1", "R2"} & {*fuzz_manager(_Cyclic, examples=20, findings=1).broken}


# -------------------------------------------------------------------------------------------- what is not wrong


@pytest.mark.parametrize("kind", [example.TestRadix, tree_faults.RefImpl, tree_faults.ChecksIn])
def test_a_right_tree_stays_silent(kind: type[PrefixTree]) -> None:
    fuzzed = fuzz_manager(kind, examples=90, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.examples >= 90
    assert fuzzed.report.activity.hits
    assert fuzzed.report.activity.refusals
    told = {"R7": "there is no check_in()", "R8": "there is no take_events()"}
    unjudged = {example.TestRadix: told, tree_faults.RefImpl: {"R7": told["R7"]}, tree_faults.ChecksIn: {}}
    assert fuzzed.unjudged == unjudged[kind]


class _Joins(Radix):
    """A node and its only child become one again, when both are released."""

    def unlock(self, node: Node) -> None:
        super().unlock(node)
        for each in [*self.path(node)]:
            self.join(each)

    def join(self, node: Node) -> None:
        if node.locks or len(node.children) != 1:
            return
        ((_, child),) = node.children.items()
        if not child.locks:
            node.tokens, node.slots = node.tokens + child.tokens, node.slots + child.slots
            node.used, node.children = max(node.used, child.used), child.children
            for below in node.children.values():
                below.parent = node


def test_a_tree_that_joins_released_nodes_evicts_what_is_one_node_now() -> None:
    kind = driven(_Joins)
    kind.order = None
    assert fuzz_manager(kind, examples=150, seconds=60).broken == {}


def test_a_tree_that_tells_nothing_is_judged_by_what_it_answers() -> None:
    fuzzed = fuzz_manager(_Least, examples=60, seconds=60)
    assert fuzzed.broken == {}
    assert {*OF_TREES} - {*fuzzed.unjudged} == {"R4", "R5", "P6", "H8", "L1", "L2"}
    assert fuzzed.unjudged["R6"] == "there is no evict(), there is no lock()"
    assert fuzzed.unjudged["P13"] == "there is no namespaces"


class _Asynchronous(example.TestRadix):
    """It waits before it answers."""

    async def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().match(tokens, namespace)

    async def edge(self, node: Node) -> Any:  # type: ignore[override]
        return super().edge(node)


class DuckTyped:
    """A tree that extends nothing; the adapter is made of it."""

    def __init__(self, page_tokens: int) -> None:
        self.tree = Radix(page_tokens)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tree, name)


def test_asynchronous_and_duck_typed_trees_are_driven_alike() -> None:
    for kind in (_Asynchronous, type("Duck", (example.TestRadix,), {"kind": DuckTyped})):
        fuzzed = fuzz_manager(kind, examples=30)
        assert fuzzed.broken == {}
        assert fuzzed.report.activity.hits


class _Unlocked(_Least):
    """It can evict, and has no locks: it is asked only while nobody runs."""

    def evict(self, tokens: int) -> list[int]:
        return self.tree.evict(tokens)

    def reset(self) -> None:
        self.tree = self.kind(self.tree.page_tokens)


class _OwnSizes(_Least):
    """Who uses what is nothing to it: all that it has may go."""

    def evictable_size(self) -> int:
        return self.tree.evictable


def test_a_tree_without_locks_has_nothing_that_is_locked() -> None:
    assert fuzz_manager(_OwnSizes, examples=60, seconds=60).broken == {}


def test_a_tree_without_locks_is_not_asked_to_evict_what_is_read() -> None:
    fuzzed = fuzz_manager(_Unlocked, examples=60)
    assert fuzzed.broken == {}
    assert "R2" not in fuzzed.unjudged
    assert "R6" in fuzzed.unjudged


# ------------------------------------------------------------------------------------------------ how it is told


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("match", [], r"match\(\) told \[\], which is not \(slots, what lock\(\) takes\)"),
        ("insert", None, r"insert\(\) answered None, which is no number"),
        ("evictable_size", 1.5, r"evictable_size\(\) answered 1.5, which is no number"),
        ("children", None, r"children\(\) answered None, which is no list of nodes"),
        ("edge", (0, 1), r"edge\(\) answered \(0, 1\), which is no kvproof.testing.Edge"),
    ],
)
def test_an_answer_of_the_wrong_shape_says_which_method_gave_it(method: str, answer: object, said: str) -> None:
    kind = type("Odd", (example.TestRadix,), {method: lambda *_: answer})
    with pytest.raises(AssertionError, match=said):
        assert_played(kind, {"blocks": 3, "block_tokens": 2}, [("start", {"request": "r0", "prompt": [0, 0, 0]})])


@pytest.mark.parametrize(("name", "told"), [("page_sizes", 3), ("namespaces", None), ("order", "fifo")])
def test_what_a_class_says_of_itself_is_looked_at(name: str, told: object) -> None:
    with pytest.raises(UsageError, match=f"{name} is {told!r}; it is "):
        fuzz_manager(type("Odd", (example.TestRadix,), {name: told}))


def test_a_tree_is_no_driver_and_who_fuzzes_it_is_said() -> None:
    with (
        Session.of(Driver.of(f"python:{tree_faults.EXAMPLE / 'test_radix.py'}:TestRadix")) as session,
        pytest.raises(WorkerError, match=r"TestRadix is a PrefixTree; pytest fuzzes it, or assert_fuzzed"),
    ):
        _ = session.hello


def test_a_finding_is_a_story_and_a_test_to_keep() -> None:
    kind = driven(tree_faults.EvictsInnerNodes)
    fuzzed = fuzz_manager(kind, seconds=5, findings=1)
    (told,) = fuzzed.broken["R6"]
    assert "R6 evicts what has a child: EvictsInnerNodes, level tree" in told
    assert "\n    evicted " in told.partition("in the last operation:")[2]
    finding = fuzzed.report.findings[0]
    scope: dict[str, Any] = {kind.__name__: kind}
    exec(regression_test(kind, finding.case, finding.verdict), scope)
    (test,) = (value for name, value in scope.items() if name.startswith("test_"))
    with pytest.raises(AssertionError, match="R6 evicts what has a child"):
        test()
    scope[kind.__name__] = example.TestRadix
    test()


def test_a_story_says_whose_namespace_it_is_where_there_are_several() -> None:
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0], "salt": "a"}),
        ("start", {"request": "r1", "prompt": [0, 0, 0]}),
    ]
    kind = type("Shares", (_Least,), {"kind": tree_faults.SharesNamespaces, "namespaces": True})
    with pytest.raises(AssertionError, match=r"matched r1 of no namespace, 2, \[0, 1\]"):
        assert_played(kind, {"blocks": 9, "block_tokens": 1}, operations)


def test_trees_are_fuzzed_and_played_in_one_line() -> None:
    assert_fuzzed(example.TestRadix, examples=10)
    with pytest.raises(AssertionError, match="R4 a match stops short"):
        assert_fuzzed(driven(tree_faults.NeverHits), seconds=2)
    with pytest.raises(AssertionError, match="blocks must be a number above 0"):
        assert_played(example.TestRadix, {"blocks": 0, "block_tokens": 2}, [])
    with pytest.raises(UsageError, match="is no BlockManager"):
        assert_lockstep(example.TestRadix)  # type: ignore[arg-type]


class _Small(example.TestRadix):
    """It is made with a few slots only."""

    def __init__(self, slots: int, page_tokens: int) -> None:
        if slots > 8:
            raise Refused("too large")
        super().__init__(slots, page_tokens)


def test_what_a_tree_refuses_is_no_finding() -> None:
    fuzzed = fuzz_manager(_Small, examples=60)
    assert fuzzed.broken == {}
    assert 0 < fuzzed.report.refused < fuzzed.report.examples


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"insert": PrefixTree.insert}, "has no insert()"),
        ({"unlock": PrefixTree.unlock}, "only one of lock() and unlock()"),
        ({"page_sizes": ()}, "numbers above 0"),
        ({"order": "fifo"}, "it is lru or None"),
    ],
)
def test_what_is_no_tree_is_one_sentence(more: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        fuzz_manager(type("Odd", (example.TestRadix,), more))


def test_what_is_there_and_did_not_come_up_is_not_said_to_be_missing() -> None:
    fuzzed = fuzz_manager(example.TestRadix, examples=10)
    assert fuzzed.report.sight is not None
    fuzzed.report.sight.told.discard("tenants")
    assert fuzzed.unjudged["P13"] == "no request was of a tenant"
    fuzzed = fuzz_manager(type("OfOne", (example.TestRadix,), {"namespaces": False}), examples=10)
    assert fuzzed.unjudged["P13"] == "there is no namespaces"

"""The oracle of prefix trees: silent on the reference implementation's tree, and it finds what is wrong in another."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproof.differential.sglang.cores import compare
from kvproof.engines.session import Limits, Session
from kvproof.engines.sglang.levels.tree import profiles
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.ghost import Ghost
from kvproof.judge.oracles.tree import TreeOracle
from kvproof.judge.record import Case, Group, PoolState, State, Step, Tier, TreeNode, TreeState, World
from kvproof.judge.shapes import problems
from kvproof.spec.rules import RULES

from .toys import FAKES

Op = tuple[str, dict[str, Any]]

SETUP = {"page": 2, "pages": 8, "events": True}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session.around(FAKES / "tree_engine.py", Path(sys.executable), os.environ, Limits(), ["tree"]) as session:
        yield session


def add(*runs: list[int], **more: Any) -> Op:
    return "add", {"runs": list(runs), **more}


PROCESS: Op = ("process", {})
SHARED = [add([0, 6], [1, 1]), PROCESS, ("finish", {"i": 0}), add([2, 2], keep=4), PROCESS]
"""A second request ends in the midst of the node of a first one."""
TWICE = [add([0, 6]), add([0, 6]), PROCESS]

FAULTS: dict[str, tuple[str, list[Op]]] = {
    "short match": ("P14", [*SHARED, add(keep=6)]),
    "split unlocks": ("R3", [add([0, 6]), PROCESS, add([1, 3], keep=4)]),
    "parent stays locked": ("R3", [*SHARED, ("finish", {"i": 0})]),
    "size": ("R3", SHARED),
    "swapped": ("P6", SHARED),
    "adopts twice": ("R2", TWICE),
    "silent removal": ("P12", [*SHARED, ("finish", {"i": 0}), ("evict", {"tokens": 2})]),
    "eviction loses": ("R2", [*SHARED, ("finish", {"i": 0}), ("evict", {"tokens": 2})]),
    "eviction stops": ("R6", [*SHARED, ("finish", {"i": 0}), ("evict", {"tokens": 6})]),
    "abort keeps its lock": ("R3", [add([0, 6]), PROCESS, ("abort", {"i": 0})]),
    "frees twice": ("P3", [add([0, 6]), ("abort", {"i": 0})]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed_and_its_absence_is_silent(session: Session, fault: str) -> None:
    rule, ops = FAULTS[fault]
    right, answer = verdict(session, close(Case("tree", SETUP, ops)))
    assert right is None, right
    assert not any(step.error for step in answer.steps)
    wrong, _ = verdict(session, close(Case("tree", {**SETUP, "fault": fault}, ops)))
    assert wrong is not None
    assert wrong.violation.rule == rule, wrong.violation
    assert rule in RULES


@pytest.mark.parametrize(
    ("fault", "ops", "what"),
    [
        ("", SHARED, None),
        ("size", SHARED, "evictable"),
        ("adopts twice", TWICE, "tables"),
        ("short match", [*SHARED, add(keep=6)], "effects"),
        ("silent removal", [*SHARED, ("finish", {"i": 0}), ("evict", {"tokens": 2})], "events"),
        ("eviction stops", [*SHARED, ("finish", {"i": 0}), ("evict", {"tokens": 6})], "result"),
    ],
)
def test_two_cores_are_compared_and_where_they_differ_is_told(
    session: Session, fault: str, ops: list[Op], what: str | None
) -> None:
    outcome = compare(session, close(Case("tree", {**SETUP, "fault": fault}, ops)))
    found = outcome.disagreement
    assert (None if found is None else found.what) == what
    assert found is None or "the core in Python" in str(found)
    assert fault or outcome.compared == len(ops) + 2


@pytest.mark.parametrize("profile", ["tokens", "pages", "tight", "events", "again"])
def test_the_clean_twin_is_silent(session: Session, profile: str) -> None:
    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def silent(data: st.DataObject) -> None:
        found, answer = verdict(session, close(data.draw(profiles("0.5.23")[profile])))
        assert found is None, found.violation
        assert answer.refused is None

    silent()


WORLD = World([Group("full", 2)], {"device": Tier(5)}, 2)
"""Five pages of two tokens."""


def told(tree: TreeState, *free: int, op: str = "add", result: Any = None) -> list[tuple[str, str]]:
    """The rules that a state breaks; what it holds is not looked at."""
    state = State({"device": PoolState(free=list(free))}, tree=tree)
    found = TreeOracle(WORLD).step(Step(op, {}, result=result, state=state), Ghost(WORLD))
    return [(v.rule, v.oracle) for v in found if v.rule != "P6"]


def node(parent: int, tokens: list[int], *pages: int, lock: int = 0, tenant: str | None = None) -> TreeNode:
    return TreeNode(parent, (tenant, None), tokens, [page * 2 + at for page in pages for at in range(2)], lock)


def of(*nodes: TreeNode, **more: Any) -> TreeState:
    return TreeState(nodes=list(nodes), **more)


def test_a_tree_that_is_right_is_told_nothing_of() -> None:
    tree = of(node(-1, [0, 1, 1, 1], 0, 1, lock=2), node(0, [2, 2], 2, lock=1), evictable=0, protected=6,
              own={"r": [3]}, locks={"r": 1, "s": 0})  # fmt: skip
    assert told(tree, 4) == []


@pytest.mark.parametrize(
    ("tree", "free", "broken"),
    [
        (of(node(-1, [0, 1], 0), node(-1, [0, 1, 2, 2], 1, 2)), (3, 4), ("R1", "siblings differ")),
        (of(node(-1, [0, 1, 2], 0, 1)), (2, 3, 4), ("R1", "edges are whole pages")),
        (of(TreeNode(-1, (None, None), [0, 1], [1, 2], 0)), (1, 2, 3, 4), ("R1", "a page that is none")),
        (of(node(-1, [0, 1], 0), node(0, [1, 1], 1, tenant="a")), (2, 3, 4), ("R1", "namespaces that share a path")),
        (of(node(-1, [0, 1], 0)), (1, 2, 3), ("R2", "a page that is nobody's")),
        (of(node(-1, [0, 1], 0)), (0, 1, 2, 3, 4), ("R2", "a page in two places")),
        (of(own={"r": [0], "s": [0]}), (1, 2, 3, 4), ("R2", "a page in two places")),
        (TreeState(slots=[0, 1, 2, 3]), (1, 2, 3, 4), ("R2", "a page in two places")),
        (of(node(-1, [0, 1], 0, lock=-1)), (1, 2, 3, 4), ("R3", "lock_ref and locks")),
        (of(node(-1, [0, 1], 0), locks={"r": 0}), (1, 2, 3, 4), ("R3", "lock_ref and locks")),
        (of(node(-1, [0, 1], 0), protected=2), (1, 2, 3, 4), ("R3", "sizes of the tree")),
    ],
)
def test_each_rule_is_seen_to_be_broken(tree: TreeState, free: tuple[int, ...], broken: tuple[str, str]) -> None:
    assert broken in told(tree, *free)


def test_a_walk_up_ends_whatever_is_told() -> None:
    with pytest.raises(ValueError, match="a parent behind its child"):
        told(of(node(0, [0, 1], 0), locks={"r": 0}), 1, 2, 3, 4)


def test_what_an_eviction_says_is_what_it_does() -> None:
    tree, free = of(node(-1, [0, 1], 0), evictable=2), (1, 2, 3, 4)
    assert told(tree, *free, op="evict", result={"asked": 4, "told": 4, "freed": 4}) == []
    assert told(tree, *free, op="evict", result={"asked": 4, "told": 4, "freed": 2}) == [
        ("R6", "what an eviction says"), ("R6", "an eviction that stops early")
    ]  # fmt: skip


def test_at_rest_nothing_is_locked_and_nothing_held() -> None:
    rest = {"left": 0, "pending": 0, "steps": 1}
    tree = of(node(-1, [0, 1], 0, lock=1), protected=2, own={"r": [1]}, locks={"r": 0})
    assert told(tree, 2, 3, 4, op="drain", result=rest) == [("L2", "locked for ever"), ("L2", "held for ever")]
    assert told(tree, 2, 3, 4, op="drain", result={**rest, "left": 1}) == []


@pytest.mark.parametrize(
    "tree",
    [of(node(1, [0, 1], 0)), of(node(-1, [-1, 1], 0)), of(node(-1, [0, 1], 7)), of(own={"r": [9]}), of(locks={"r": 0})],
)
def test_a_tree_out_of_range_is_garbage(tree: TreeState) -> None:
    assert [*problems(WORLD, [Step("add", {}, state=State({}, tree=tree))])]

"""The oracle of prefix trees: silent on the reference implementation's tree, and it finds what is wrong in another."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproof.differential.sglang.cores import compare
from kvproof.engines.session import Limits, Session
from kvproof.engines.sglang.levels.tree import profiles
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.ghost import Ghost
from kvproof.judge.oracles.tree import TreeOracle
from kvproof.judge.oracles.tree_below import TreeBelowOracle
from kvproof.judge.oracles.tree_events import TreeEventsOracle
from kvproof.judge.oracles.tree_from_below import TreeFromBelowOracle
from kvproof.judge.oracles.tree_room import RoomOracle
from kvproof.judge.oracles.tree_stores import TreeStoresOracle
from kvproof.judge.record import Case, Group, PoolState, State, Step, Tier, TreeNode, TreePart, TreeState, World
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
    """R11."""
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


def pairs(node: TreeNode, behind: int) -> TreeNode:
    """The node where keys are of each token and the next one."""
    return msgspec.structs.replace(node, behind=behind)


def of(*nodes: TreeNode, **more: Any) -> TreeState:
    return TreeState(nodes=list(nodes), **more)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([("stored", "device", None, [1, 2], None), ("stored", "device", None, [3], 2),
          ("removed", "device", None, [3]), ("removed", "device", None, [1, 2])], None),
        ([("stored", "device", None, [1], None), ("stored", "device", None, [2], 1),
          ("stored", "host", None, [1], None),
          ("removed", "device", None, [1]), ("removed", "device", None, [2]), ("removed", "host", None, [1])], None),
        ([("stored", "device", None, [1], None), ("stored", "device", None, [2], 1), ("cleared", "device"),
          ("stored", "device", None, [1], None), ("removed", "device", None, [1])], None),
        ([("stored", "device", None, [1], None), ("stored", "device", None, [2], 1), ("removed", "device", None, [1])],
         "removed before what is behind it"),
        ([("stored", "device", None, [1, 2], None), ("removed", "device", None, [1])],
         "removed before what is behind it"),
        ([("stored", "device", None, [2], 1), ("stored", "device", None, [1], None)], "a page behind none"),
        ([("stored", "device", None, [1], None), ("removed", "device", None, [1]), ("stored", "device", None, [2], 1)],
         "a page behind none"),
    ],
)  # fmt: skip
def test_a_listener_never_knows_a_prefix_with_a_hole(events: list[tuple[Any, ...]], said: str | None) -> None:
    """R8; of an engine without a tree it is no rule."""
    for tree in (TreeState(), None):
        step = Step("add", {}, effects=[[*event] for event in events], state=State({}, tree=tree))
        found = [*TreeEventsOracle(WORLD).step(step, Ghost(WORLD))]
        assert [(v.rule, v.oracle) for v in found] == ([("R8", said)] if said and tree else [])


def test_a_tree_that_is_right_is_told_nothing_of() -> None:
    tree = of(node(-1, [0, 1, 1, 1], 0, 1, lock=2), node(0, [2, 2], 2, lock=1), evictable=0, protected=6,
              own={"r": [3]}, locks={"r": 1, "s": 0})  # fmt: skip
    assert told(tree, 4) == []


def test_where_keys_are_of_pairs_siblings_may_differ_in_the_token_behind_a_page() -> None:
    tree = of(pairs(node(-1, [0, 1], 0), 2), pairs(node(-1, [0, 1, 1, 2], 1, 2), 1), evictable=6, protected=0)
    assert told(tree, 3, 4) == []


@pytest.mark.parametrize(
    ("tree", "free", "broken"),
    [
        (of(node(-1, [0, 1], 0), node(-1, [0, 1, 2, 2], 1, 2)), (3, 4), ("R1", "siblings differ")),
        (of(pairs(node(-1, [0, 1], 0), 2), pairs(node(-1, [0, 1, 2, 2], 1, 2), 1)), (3, 4), ("R1", "siblings differ")),
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


ON_HOST = World([Group("full", 2)], {"device": Tier(5), "host": Tier(3)}, 2)
"""Three pages more on a second tier."""


def backed(node: TreeNode, *pages: int) -> TreeNode:
    """The node, which stands at these pages of the host too."""
    node.host = [([page * 2 + at for page in pages for at in range(2)], 0)]
    return node


@pytest.mark.parametrize(
    ("nodes", "free", "held", "broken"),
    [
        ([backed(node(-1, [0, 1], 0), 0)], (1, 2), (), None),
        ([backed(node(-1, [0, 1], 0), 0)], (1,), (2,), None),
        ([backed(node(-1, [0, 1], 0), 0)], (1,), (), "a page that is nobody's"),
        ([node(-1, [0, 1], 0)], (1, 2), (), "a page that is nobody's"),
        ([backed(node(-1, [0, 1], 0), 0), backed(node(0, [1, 1]), 1)], (2,), (), None),
        ([backed(node(-1, [0, 1]), 0), backed(node(0, [1, 1]), 1)], (2,), (), None),
        ([backed(node(-1, [0, 1]), 0), backed(node(0, [1, 1], 0), 1)], (2,), (), "a node without its prefix"),
        ([backed(node(-1, [0, 1]), 0), node(0, [1, 1], 0)], (1, 2), (), "a node without its prefix"),
    ],
    ids=[
        "free", "a read holds it", "neither", "of no node", "backed up", "all on the host", "below it", "below it alone"
    ],
)  # fmt: skip
def test_what_a_tree_has_on_the_host_is_complete(
    nodes: list[TreeNode], free: tuple[int, ...], held: tuple[int, ...], broken: str | None
) -> None:
    taken = {slot // 2 for node in nodes for slot in node.slots}
    pools = {"device": PoolState(free=sorted({*range(5)} - taken)), "host": PoolState(free=[*free])}
    step = Step("add", {}, state=State(pools, holds={"host": [*held]}, tree=of(*nodes)))
    assert not [*problems(ON_HOST, [step])]
    found = [v for v in TreeOracle(ON_HOST).step(step, Ghost(ON_HOST)) if v.rule != "P6"]
    rule, key = ("R2", ("host",)) if broken == "a page that is nobody's" else ("R10", ())
    assert [(v.rule, v.oracle, v.key) for v in found] == ([(rule, broken, key)] if broken else [])


def test_a_node_is_on_one_tier_at_least() -> None:
    pools = {"device": PoolState(free=[*range(5)]), "host": PoolState(free=[0, 1, 2])}
    step = Step("add", {}, state=State(pools, tree=of(node(-1, [0, 1]))))
    found = {(v.rule, v.oracle) for v in TreeOracle(ON_HOST).step(step, Ghost(ON_HOST))}
    assert found == {("R10", "a node that is nowhere"), ("R1", "edges are whole pages")}


STATES_ON_HOST = World([Group("full", 2), Group("mamba", 2)], {"device": Tier(5), "host": Tier(3)}, 2)


@pytest.mark.parametrize(
    ("lock", "anchors", "broken"),
    [(0, {}, []), (1, {"load": 0}, []), (2, {"load": 0}, ["too many"]), (0, {"load": 0}, ["too few"]),
     (1, {"load": 1}, ["too many"]), (-1, {}, ["negative"]), (2, None, [])],
)  # fmt: skip
def test_a_state_on_the_host_is_held_by_what_holds_its_node(
    lock: int, anchors: dict[str, int] | None, broken: list[str]
) -> None:
    """A state is that of one node: what holds the one below holds another one."""
    upper, lower = backed(node(-1, [0, 1], 0), 0), backed(node(0, [1, 1], 1), 1)
    upper.host.append(([2], lock))
    lower.host.append(([], anchors is not None and 1 in anchors.values()))
    upper.parts = lower.parts = [([], 0)]
    tree = of(upper, lower, parts=[TreePart(anchors=anchors)])
    step = Step("add", {}, state=State({"device": PoolState(free=[2, 3, 4]), "host": PoolState(free=[])}, tree=tree))
    assert not [*problems(STATES_ON_HOST, [step])]
    found = [v for v in TreeOracle(STATES_ON_HOST).step(step, Ghost(STATES_ON_HOST)) if v.rule != "P6"]
    expected = [("R3", "locks on the host", ("mamba", side)) for side in broken]
    assert [(v.rule, v.oracle, v.key) for v in found] == expected


STORED = World(
    [Group("full", 2), Group("mamba", 2)], {"device": Tier(5), "host": Tier(4)}, 2, notes={"parts": ["host"]}
)
ALONE = [["compute", "r0", 0, [0, 1]], ["processed", "r0", 2], ["end", "r0", "finished"]]


def stored(*, state: bool) -> TreeNode:
    """A node with a state, which is stored, its state too or not."""
    made = backed(node(-1, [0, 1], 0), 0)
    made.parts, made.host = [([3], 0)], [*made.host, ([2] if state else [], 0)]
    return made


@pytest.mark.parametrize(
    ("effects", "ran", "before", "state", "told"),
    [
        (ALONE, [], of(), False, True),
        (ALONE, ["r0"], of(), False, True),
        (ALONE, [], of(), True, False),
        (ALONE, ["r1"], of(), False, False),
        ([*ALONE, ["processed", "r1", 2]], [], of(), False, False),
        ([*ALONE, ["processed", "r0", 2]], [], of(), False, False),
        ([["preempted", "r0"], *ALONE], [], of(), False, False),
        (ALONE, [], of(node(-1, [0, 1], 0)), False, False),
        (ALONE, [], None, False, False),
    ],
    ids=[
        "new", "of who ran", "whole", "another runs", "another ends", "two passes", "computed again", "split", "unseen"
    ],
)  # fmt: skip
def test_what_is_stored_is_stored_with_what_the_node_has(
    effects: list[Any], ran: list[str], before: TreeState | None, state: bool, told: bool
) -> None:
    """Where another request, or a later pass, may have brought the state behind the store, nothing is said."""
    pools = {"device": PoolState(), "host": PoolState()}
    steps = [
        Step("add", {}, state=State(pools, {r: [[], []] for r in ran}, tree=before)),
        Step("round", {}, effects=effects, state=State(pools, tree=of(stored(state=state)))),
    ]
    oracle, ghost = TreeStoresOracle(STORED), Ghost(STORED)
    found = [(v.rule, v.oracle, v.key) for step in steps for v in oracle.step(step, ghost)]
    assert found == ([("O9", "stored without its parts", ("mamba",))] if told else [])
    without = TreeStoresOracle(STATES_ON_HOST)
    assert [v for step in steps for v in without.step(step, ghost)] == []


LEAF, UNDER_COPY = [-1, [0, 1], None, 0, False, False], ["copy", 1, "begin", [["host", 0, "device", 3]]]


@pytest.mark.parametrize(
    ("effects", "g", "asked", "told", "rows", "expected"),
    [
        ([], 0, 2, 2, [LEAF], []),
        ([], 0, 1, 2, [LEAF], []),
        ([], 0, 4, 2, [LEAF], []),
        ([], 0, 0, 2, [LEAF], [("evicts too much", ("host",))]),
        ([], 0, 2, 4, [LEAF, [-1, [2, 3], None, 0, False, False]], [("evicts too much", ("host",))]),
        ([], 0, 3, 4, [LEAF, [-1, [2, 3], None, 0, False, False]], []),
        ([], 0, 3, 3, [LEAF], [("what an eviction says", ("host",))]),
        ([], 0, 3, 2, [LEAF, [-1, [2, 3], 2, 0, False, False]], [("an eviction that stops early", ("host",))]),
        ([], 0, 3, 2, [[-1, [2, 3], 2, 0, False, False], [0, [0, 1], None, 0, False, False]],
         [("an eviction that stops early", ("host",))]),
        ([], 0, 3, 2, [[-1, [2, 3], 2, 0, False, False], [0, [], 0, 0, True, True], LEAF], []),
        ([], 0, 3, 2, [LEAF, [-1, [2, 3], 2, 0, True, False]], []),
        ([], 0, 3, 2, [LEAF, [-1, [2, 3], 2, 0, False, True]], []),
        ([], 1, 2, 1, [[-1, [2], 1, 0, True, False], [0, [3], 0, 0, True, False]],
         [("an eviction that stops early", ("host", "mamba"))]),
        ([], 1, 2, 1, [[-1, [2], 1, 1, True, False], [0, [3], 0, 0, True, False]], []),
        ([], 0, 2, 2, [[-1, [0, 1], None, 1, True, False]], [("evicts what is in use", ("host", "locked"))]),
        ([UNDER_COPY], 0, 2, 2, [LEAF], [("evicts what is in use", ("host", "copied"))]),
        ([UNDER_COPY, ["copy", 1, "end"]], 0, 2, 2, [LEAF], []),
    ],
    ids=[
        "what was asked", "a whole node", "nothing left", "nothing asked", "a node more", "the last one needed",
        "told more", "a leaf left", "a new leaf left", "a leaf on the device", "one in use", "one on the device too",
        "a state left", "a locked state left", "locked", "under a copy", "behind the copy",
    ],
)  # fmt: skip
def test_a_tier_below_makes_as_much_room_as_is_asked_for(
    effects: list[Any], g: int, asked: int, told: int, rows: list[Any], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    step = Step("round", {}, effects=[*effects, ["makes_room", "host", g, asked, told, rows]])
    assert [*problems(STATES_ON_HOST, [step])] == []
    found = [*RoomOracle(STATES_ON_HOST).step(step, Ghost(STATES_ON_HOST))]
    assert [(v.rule, v.oracle, v.key) for v in found] == [("R6", oracle, key) for oracle, key in expected]


@pytest.mark.parametrize(
    "row",
    [
        None, [], [0, [0, 1], 2, 0, False, False], [-2, [0, 1], 2, 0, False, False], [-1, 0, 2, 0, False, False],
        [-1, [0, 1], 3, 0, False, False], [-1, [0, 1], -1, 0, False, False], [-1, [0, 1], 2, -1, False, False],
        [-1, [0, 1], 2, 0, 1, False], [-1, [0, 1], 2, 0, False, None],
    ],
)  # fmt: skip
def test_a_node_of_an_eviction_that_is_none_is_told(row: Any) -> None:
    step = Step("round", {}, effects=[["makes_room", "host", 0, 2, 2, [row]]])
    assert [problem.kind for problem in problems(STATES_ON_HOST, [step])] == ["effect"]


PARTS = World([Group("full", 2), Group("window", 2, 4), Group("mamba", 2)], {"device": Tier(12)}, 2)
"""Pages 0 to 4 are of full attention, 5 to 8 of a window that reads three tokens before its own, 9 to 11 are states."""

Had = tuple[list[int], int | None]


def parts_told(
    nodes: list[TreeNode], *free: int, window: TreePart | None = None, states: TreePart | None = None, **more: Any
) -> list[tuple[str, str]]:
    """The rules that a state with three groups breaks; what it holds is not looked at."""
    op, result = more.pop("op", "add"), more.pop("result", None)
    tree = of(*nodes, parts=[window or TreePart(), states or TreePart()], **more)
    state = State({"device": PoolState(free=list(free))}, tree=tree)
    step = Step(op, {}, result=result, state=state)
    assert not [*problems(PARTS, [step])]
    return [(v.rule, v.oracle) for v in TreeOracle(PARTS).step(step, Ghost(PARTS)) if v.rule != "P6"]


def having(node: TreeNode, window: Had, state: Had) -> TreeNode:
    node.parts = [window, state]
    return node


def pages(*numbers: int) -> list[int]:
    return [page * 2 + at for page in numbers for at in range(2)]


GONE: Had = ([], 0)
LONG = [
    having(node(-1, [0, 1], 0, lock=2), GONE, GONE),
    having(node(0, [2, 2], 1, lock=2), (pages(5), 1), GONE),
    having(node(1, [2, 2], 2, lock=2), (pages(6), 1), ([9], 1)),
]
"""Two requests are locked at its end, one of which has given up the window and the state."""
HELD = {"r": 2, "s": 2}
LOCKED = {"window": TreePart(0, 4, {"r": 2}), "states": TreePart(0, 1, {"r": 2})}


def test_a_tree_with_tombstones_that_is_right_is_told_nothing_of() -> None:
    assert parts_told(LONG, 3, 4, 7, 8, 10, 11, locks=HELD, **LOCKED) == []
    # The upper half of a node that was split under a lock keeps it, and is farther away than the window.
    wider = [
        having(node(-1, [0, 1], 0, lock=1), (pages(7), 1), GONE),
        having(node(0, [2, 2], 1, lock=1), (pages(5), 1), GONE),
        having(node(1, [2, 2], 2, lock=1), (pages(6), 1), ([9], 1)),
    ]
    window = TreePart(0, 6, {"r": 2})
    assert parts_told(wider, 3, 4, 8, 10, 11, locks={"r": 2}, window=window, states=LOCKED["states"]) == []


FREE = (2, 3, 4)


@pytest.mark.parametrize(
    ("has", "more", "free", "broken"),
    [
        (((pages(5), 0), GONE), {}, (6, 7, 8, 9, 10, 11), ("R9", "half a tombstone")),
        ((GONE, ([9, 10], 0)), {}, (5, 6, 7, 8, 11), ("R9", "half a tombstone")),
        ((([10, 11, 13, 14], 0), GONE), {}, (7, 8, 9, 10, 11), ("R9", "a page that is none")),
        (((pages(5, 6), 0), GONE), {}, (5, 7, 8, 9, 10, 11), ("R2", "a page in two places")),
        ((GONE, ([9], 0)), {}, (5, 6, 7, 8, 9, 10, 11), ("R2", "a page in two places")),
        ((GONE, GONE), {}, (5, 6, 7, 8, 10, 11), ("R2", "a page that is nobody's")),
        ((GONE, ([9], 0)), {"own": {"r": [9]}}, (5, 6, 7, 8, 10, 11), ("R2", "a page in two places")),
        (((pages(5, 6), 1), GONE), {}, (7, 8, 9, 10, 11), ("R9", "lock_ref and locks")),
        (((pages(5, 6), -1), GONE), {}, (7, 8, 9, 10, 11), ("R9", "lock_ref and locks")),
        (
            ((pages(5, 6), 0), GONE),
            {"window": TreePart(locks={"r": 0})},
            (7, 8, 9, 10, 11),
            ("R9", "lock_ref and locks"),
        ),
        ((GONE, ([9], 2)), {"states": TreePart(locks={"r": 0})}, (5, 6, 7, 8, 10, 11), ("R9", "lock_ref and locks")),
        (((pages(5, 6), 0), GONE), {"window": TreePart(2, 0)}, (7, 8, 9, 10, 11), ("R3", "sizes of the tree")),
        ((GONE, ([9], 0)), {"states": TreePart(1, 1)}, (5, 6, 7, 8, 10, 11), ("R3", "sizes of the tree")),
    ],
)
def test_each_rule_of_windows_and_states_is_seen_to_be_broken(
    has: tuple[Had, Had], more: dict[str, Any], free: tuple[int, ...], broken: tuple[str, str]
) -> None:
    had = having(node(-1, [0, 1, 1, 1], 0, 1), *has)
    assert broken in parts_told([had], *FREE, *free, **more)


def test_a_lock_of_a_window_covers_all_of_the_window() -> None:
    short = [*LONG[:1], having(node(0, [2, 2], 1, lock=2), (pages(5), 0), GONE), LONG[2]]
    told = parts_told(short, 3, 4, 7, 8, 10, 11, locks=HELD, window=TreePart(locks={"r": 2}), states=LOCKED["states"])
    assert told == [("R9", "lock_ref and locks")]


def test_a_window_and_a_state_hold_what_their_node_says() -> None:
    ghost = Ghost(PARTS)
    for effect in (
        ["request", "r", {"tokens": [0, 1, 2]}], ["table", "r", 0, 0, [0]], ["table", "r", 1, 0, [5]],
        ["state", "r", 2, None, [[9, 2]]], ["compute", "r", 0, [0, 1]],
    ):  # fmt: skip
        assert not [*(ghost.apply(effect) or ())]

    def wrong(tokens: list[int], state: int) -> list[str]:
        tree = of(having(node(-1, tokens, 0), (pages(5), 0), ([state], 0)), parts=[TreePart(), TreePart()])
        step = Step("add", {}, state=State({"device": PoolState(free=[])}, tree=tree))
        return [v.key[0] for v in TreeOracle(PARTS).step(step, ghost) if v.oracle == "content of the tree" and v.key]

    assert wrong([0, 1], 9) == []
    assert wrong([0, 1], 10) == ["mamba"]
    assert wrong([0, 2], 10) == ["window", "mamba"]


def test_an_eviction_answers_for_each_group() -> None:
    nodes = [having(node(-1, [0, 1, 1, 1], 0, 1), (pages(5, 6), 0), ([9], 0))]
    rest: dict[str, Any] = {"op": "evict", "window": TreePart(4), "states": TreePart(1), "evictable": 4}
    free = (*FREE, 7, 8, 10, 11)
    right = {"asked": [0, 0, 0], "told": [4, 4, 1], "freed": [4, 4, 1]}
    assert parts_told(nodes, *free, result=right, **rest) == []
    wrong = {"asked": [0, 2, 1], "told": [0, 2, 0], "freed": [0, 0, 0]}
    assert parts_told(nodes, *free, result=wrong, **rest) == [
        ("R6", "what an eviction says"), ("R6", "an eviction that stops early"), ("R6", "an eviction that stops early")
    ]  # fmt: skip


def test_a_state_that_stays_locked_at_rest_is_told() -> None:
    nodes = [having(node(-1, [0, 1, 1, 1], 0, 1), GONE, ([9], 1))]
    rest = {"left": 0, "pending": 0, "steps": 1}
    told = parts_told(nodes, *FREE, 5, 6, 7, 8, 10, 11, op="drain", result=rest, states=TreePart(0, 1, {"r": 0}))
    assert told == [("L2", "locked for ever")]


@pytest.mark.parametrize(
    "tree",
    [
        of(parts=[TreePart()]),
        of(node(-1, [0, 1], 0), parts=[TreePart(), TreePart()]),
        of(having(node(-1, [0, 1], 0), GONE, ([12], 0)), parts=[TreePart(), TreePart()]),
        of(parts=[TreePart(), TreePart(locks={"r": 0})]),
    ],
)
def test_parts_out_of_shape_are_garbage(tree: TreeState) -> None:
    assert [*problems(PARTS, [Step("add", {}, state=State({}, tree=tree))])]


BELOW = World(
    [Group("full", 2), Group("window", 2, 4)],
    {"device": Tier(5), "host": Tier(4), "storage": Tier(9)},
    2,
    notes={"below": ["host", "storage"]},
)
DONE: tuple[str, dict[str, Any], Any] = ("drain", {}, {"left": 0, "pending": 0})


def on_both(host: list[tuple[int, int]], storage: list[tuple[int, int]]) -> State:
    """A state in which the two tiers have these keys and groups."""
    upper, lower = ([(key, g, [at]) for at, (key, g) in enumerate(entries)] for entries in (host, storage))
    return State({"device": PoolState(), "host": PoolState(cached=upper), "storage": PoolState(cached=lower)})


@pytest.mark.parametrize(
    ("before", "last", "host", "storage", "told"),
    [
        ([], DONE, [(7, 0)], [(7, 0)], None),
        ([], DONE, [(7, 0)], [], "full"),
        ([], DONE, [(7, 0), (7, 1)], [(7, 0)], "window"),
        ([], ("round", {}, 0), [(7, 0)], [], None),
        ([], ("drain", {}, {"left": 0, "pending": 2}), [(7, 0)], [], None),
        ([("round", {}, [], [(7, 0)]), ("lose", {}, [], [])], DONE, [(7, 0)], [], None),
        ([("round", {}, [], [(8, 0)]), ("lose", {}, [(7, 0)], [])], DONE, [(7, 0)], [], "full"),
        ([("storage", {"bad": 1}, [(7, 0)], [])], DONE, [(7, 0)], [], None),
        ([("storage", {"bad": 1}, [], []), ("round", {}, [(7, 0)], [])], DONE, [(7, 0)], [], "full"),
        ([("detach", {}, [], []), ("round", {}, [(7, 0)], []), ("round", {}, [], [])], DONE, [(7, 0)], [], None),
        ([("detach", {}, [], []), ("attach", {}, [(7, 0)], [])], DONE, [(7, 0)], [], None),
        ([("detach", {}, [], []), ("attach", {}, [], []), ("round", {}, [], [])], DONE, [(7, 0)], [], "full"),
    ],
    ids=[
        "there", "missing", "without its window", "not done", "pending", "lost", "another lost", "gone bad",
        "behind what went bad", "while it is away", "while it was away", "behind that",
    ],
)  # fmt: skip
def test_what_is_on_the_host_goes_on_to_the_storage(
    before: list[Any], last: Any, host: list[tuple[int, int]], storage: list[tuple[int, int]], told: str | None
) -> None:
    """What was lost is not asked for, and what the host had while something went bad or was away."""
    steps = [Step(op, args, state=on_both(upper, lower)) for op, args, upper, lower in before]
    steps.append(Step(last[0], last[1], result=last[2], state=on_both(host, storage)))
    oracle, ghost = TreeBelowOracle(BELOW), Ghost(BELOW)
    found = [(v.rule, v.oracle, v.key) for step in steps for v in oracle.step(step, ghost)]
    assert found == ([("O9", "not handed on to the tier below", (told,))] if told else [])
    without = TreeBelowOracle(STORED)
    assert [v for step in steps for v in without.step(step, ghost)] == []


WAITS = World(BELOW.groups, BELOW.tiers, 2, notes={**BELOW.notes, "waits": [2, 12]})
STATES_BELOW = World(
    [Group("full", 2), Group("mamba", 2)], BELOW.tiers, 2, notes={"below": ["host", "storage"], "waits": [2, 12]}
)
KEPT_BELOW = [(1, 0), (2, 0), (1, 1), (2, 1)]
LEFT = ["end", "r1", "finished"]
ALONE_THERE: list[Any] = [("drain", {}, DONE[2], [], KEPT_BELOW, [])]


def comes(r: str = "r0", *, most: int = 1, then: Any = ()) -> Any:
    told = [["request", r, {"tokens": [0, 0, 0, 0, 0]}], ["keys", r, 0, [1, 2]], *then]
    return "add", {"most": most}, None, [], KEPT_BELOW, told


def looks(found: int, r: str = "r0") -> Any:
    return "round", {}, 0, [], KEPT_BELOW, [["lookup", r, found, 0, 4]]


def at(op: str, storage: list[tuple[int, int]] = KEPT_BELOW, effects: Any = (), **args: Any) -> Any:
    return op, args, None, [], storage, [*effects]


def test_an_attach_that_is_refused_brings_no_tier_back() -> None:
    """It was told as not handed on (O9)."""
    steps = [Step("detach", {}, result=True, state=on_both([], [])), Step("attach", {}, result=False)]
    steps.append(Step(*DONE[:2], result=DONE[2], state=on_both([(7, 0)], [])))
    steps[1].state = on_both([], [])
    oracle, ghost = TreeBelowOracle(BELOW), Ghost(BELOW)
    assert [v for step in steps for v in oracle.step(step, ghost)] == []


@pytest.mark.parametrize(
    ("world", "did", "told"),
    [
        (WAITS, [*ALONE_THERE, comes(), looks(4)], False),
        (WAITS, [*ALONE_THERE, comes(), looks(2)], True),
        (WAITS, [*ALONE_THERE, at("reset"), comes(), at("round"), looks(0)], True),
        (WAITS, [*ALONE_THERE, comes(most=4), looks(0)], False),
        (WAITS, [*ALONE_THERE, comes(), comes("r1"), looks(0)], False),
        (WAITS, [*ALONE_THERE, comes("r1"), at("round", effects=[LEFT]), comes(), looks(0)], False),
        (WAITS, [("drain", {}, DONE[2], [(1, 0)], KEPT_BELOW, []), comes(), looks(0)], False),
        (WAITS, [*ALONE_THERE, comes(), at("lose", KEPT_BELOW[1:]), looks(0)], False),
        (WAITS, [*ALONE_THERE, comes(), at("storage", bad=1), looks(0)], False),
        (WAITS, [*ALONE_THERE, at("detach"), comes(), looks(0)], False),
        (WAITS, [*ALONE_THERE, at("detach"), at("attach"), comes(), looks(0)], True),
        (WAITS, [*ALONE_THERE, comes(), at("abort", effects=[["end", "r0", "aborted"]]), at("round")], False),
        (WAITS, [("drain", {}, DONE[2], [], [(1, 0), (2, 0), (2, 1)], []), comes(), looks(0)], False),
        (STATES_BELOW, [*ALONE_THERE, comes(), looks(0)], True),
        (STATES_BELOW, [("drain", {}, DONE[2], [], KEPT_BELOW[:3], []), comes(), looks(2)], False),
        (BELOW, [*ALONE_THERE, comes(), looks(0)], False),
    ],
    ids=[
        "all", "less", "behind a reset", "no room", "another one", "behind another one", "on the host", "lost",
        "gone bad", "away", "back", "aborted", "window not whole", "state", "state before", "not promised",
    ],
)  # fmt: skip
def test_what_is_below_is_found_by_who_waits_for_it_alone(world: World, did: list[Any], told: bool) -> None:
    oracle, ghost = TreeFromBelowOracle(world), Ghost(world)
    found = []
    for op, args, result, host, storage, effects in did:
        assert [broken for effect in effects for broken in ghost.apply(effect) or ()] == []
        step = Step(op, args, effects=effects, result=result, state=on_both(host, storage))
        found += [(v.rule, v.oracle) for v in oracle.step(step, ghost)]
    assert found == ([("O6", "what the tier below has is not found")] if told else [])

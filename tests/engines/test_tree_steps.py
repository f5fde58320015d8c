"""What a tree loses or lets go of from one step to the next, by hand, before the whole judge: R6, R7, and R2, R4, R5 of
its nodes."""

from typing import Any

import pytest

from kvproof.judge.judging import Judge
from kvproof.judge.oracles.tree_answers import TreeAnswersOracle
from kvproof.judge.record import Effect, Group, PoolState, State, Step, Tier, TreeNode, TreeState, World

Told = list[tuple[str, str]]

BLOCKS = 6
"""Pages of two tokens."""


def world(*more: Group, **notes: Any) -> World:
    return World([Group("full", 2), *more], {"device": Tier(BLOCKS)}, 2, notes=notes)


def node(parent: int, tokens: list[int], *pages: int, lock: int = 0) -> TreeNode:
    return TreeNode(parent, (None, None), tokens, [page * 2 + at for page in pages for at in range(2)], lock)


def step(op: str, nodes: list[TreeNode], *effects: Effect, free: int | None = None, **more: Any) -> Step:
    """What the tree has not is free, or only the first so many of that: the others are r9's own."""
    of_tree = {slot // 2 for node in nodes for slot in node.slots}
    rest = [block for block in range(BLOCKS) if block not in of_tree]
    locks = {f"l{at}": at for at, node in enumerate(nodes) if node.lock}
    tree = TreeState(nodes=nodes, own={"r9": rest[free:]} if free is not None else {}, locks=locks)
    return Step(op, {}, effects=[*effects], state=State({"device": PoolState(free=rest[:free])}, tree=tree), **more)


def told(of: World, *steps: Step) -> Told:
    """The rules that these steps break; what stands in the pages is not looked at."""
    is_asked = "checks_in" in of.notes
    judge = Judge(of, lambda world: [TreeAnswersOracle(world)] if is_asked else [])
    return [(v.rule, v.oracle) for step in steps for v in judge.step(step) if v.rule != "P6"]


def comes(r: str, *tokens: int) -> Effect:
    return ["request", r, {"tokens": [*tokens]}]


def over(r: str, processed: int, how: str = "finished") -> list[Effect]:
    return [["processed", r, processed], ["end", r, how]]


# ------------------------------------------------------------------ what a request computed, until something wants room

CACHED = world(finished="cached")
A, B = node(-1, [0, 1], 0), node(-1, [2, 2], 1)
AB = node(-1, [0, 1, 1, 1], 0, 2)
NOTHING: Told = []
FOR_NOTHING: Told = [("R6", "evicted for nothing")]
NOT_IN_TREE: Told = [("R7", "what a request computed is not in the tree")]


@pytest.mark.parametrize("op", ["process", "probe"])
def test_who_computes_nothing_takes_nothing_out_of_the_tree(op: str) -> None:
    assert told(CACHED, step("add", [A, B]), step(op, [A, B])) == NOTHING
    assert told(CACHED, step("add", [A, B]), step(op, [A])) == FOR_NOTHING
    assert told(CACHED, step("add", [AB]), step(op, [A])) == FOR_NOTHING, "a part of a node"


def test_what_goes_where_room_may_be_wanted_is_not_judged() -> None:
    gone = [step("add", [A, B]), step("evict", [A], result={"asked": 2, "told": 2, "freed": 2})]
    assert told(CACHED, *gone) == NOTHING
    assert told(world(), step("add", [A, B]), step("probe", [A])) == NOTHING, "it is not told that all is kept"
    states = world(Group("mamba", 2), finished="cached")
    assert told(states, step("add", [A, B]), step("process", [A])) == NOTHING, "a state is copied, and wants room"


@pytest.mark.parametrize("op", ["add", "run"])
@pytest.mark.parametrize(
    ("free", "passes", "is_told"),
    [(3, [4], True), (2, [4], False), (4, [3, 2], False), (5, [3, 2], True), (0, [], True)],
    ids=["room", "one page too few", "one page too few for two", "room for two", "no pass"],
)
def test_who_computes_takes_something_out_only_where_too_few_pages_are_free(
    op: str, free: int, passes: list[int], is_told: bool
) -> None:
    had = [A] if free > 4 else [A, B]
    kept = had[:-1]
    effects: list[Effect] = []
    for n, tokens in enumerate(passes):
        r, new = f"r{n}", [3 + n] * tokens
        blocks = [*range(1, 5)][n * 2 : n * 2 + 2]
        effects += [comes(r, *new), ["table", r, 0, 0, blocks], ["compute", r, 0, new]]
    before = step("add", had, free=free)
    assert told(CACHED, before, step(op, kept, *effects)) == (FOR_NOTHING if is_told else NOTHING)
    assert told(CACHED, before, step(op, had, *effects)) == NOTHING


@pytest.mark.parametrize("op", ["finish", "process", "round"])
def test_what_a_request_computed_is_in_the_tree_when_it_has_finished(op: str) -> None:
    def ends(nodes: list[TreeNode], *effects: Effect) -> Told:
        return told(CACHED, step("add", [], comes("r0", 0, 1, 1, 1, 3)), step(op, nodes, *effects))

    assert ends([AB], *over("r0", 5)) == NOTHING
    assert ends([A], *over("r0", 5)) == ends([], *over("r0", 2)) == NOT_IN_TREE
    assert ends([A], *over("r0", 3)) == ends([], *over("r0", 1)) == NOTHING, "they fill no page more"
    assert ends([], *over("r0", 5, "aborted")) == ends([], ["end", "r0", "finished"]) == NOTHING
    windows = world(Group("window", 2, 4), finished="cached")
    assert told(windows, step("add", [], comes("r0", 0, 1)), step(op, [], *over("r0", 2))) == (
        NOTHING if op == "round" else NOT_IN_TREE
    )
    verified: list[Effect] = [
        ["append", "r0", [1]],
        ["output", "r0", 5, 1, None, [0, 1, 1, 1, 3], [1], 0, 1],
        *over("r0", 8),
    ]
    assert ends([A], *verified) == NOT_IN_TREE
    assert ends([node(-1, [0, 1, 1, 1], 0, 2)], *verified) == NOTHING, "the third page was verified, and is nobody's"
    turn = step("turn", [], comes("r0", 0, 1, 1, 1, 3))
    assert told(CACHED, turn, step(op, [], *over("r0", 5))) == NOTHING, "the conversation keeps it"


# ---------------------------------------------------------------------------------------------------- order of eviction

LRU = world(order="lru")
OUT_OF_ORDER: Told = [("R6", "order of eviction")]
BELOW_A, BELOW_B = node(0, [3, 3], 3), node(1, [3, 3], 3)
LOCKED_B = node(-1, [2, 2], 1, lock=1)
USED: list[Effect] = [comes(r, *tokens) for r, tokens in (("r0", (0, 1)), ("r1", (2, 2)), ("r2", (0, 1, 5)))]
OVER: list[Effect] = [["end", "r0", "aborted"], ["end", "r1", "aborted"]]
LOOKED_UP: list[Effect] = [["lookup", "r2", 2, 0, 2], ["end", "r2", "aborted"]]
"""A lookup goes through A behind all that used B."""


def evicted(before: list[TreeNode], stay: list[TreeNode], of: World = LRU, *, asked: Any = 2) -> Told:
    """What is said of an eviction that leaves these nodes, where A was used last and B before it."""
    result = {"asked": asked, "told": asked, "freed": asked}
    steps = [step("add", before, *USED, *OVER), step("add", before, *LOOKED_UP), step("evict", stay, result=result)]
    return told(of, *steps)


@pytest.mark.parametrize("asked", [2, [2]], ids=["a number", "a number for each group"])
def test_the_leaf_that_was_used_before_the_others_goes_first(asked: Any) -> None:
    assert evicted([A, B], [A], asked=asked) == NOTHING
    assert evicted([A, B], [B], asked=asked) == OUT_OF_ORDER


def test_a_leaf_alone_that_nobody_locks_is_to_go_before() -> None:
    assert evicted([A, LOCKED_B], [LOCKED_B]) == NOTHING
    assert evicted([A, B, BELOW_B], [B, node(0, [3, 3], 3)]) == OUT_OF_ORDER, "the leaf below B was not used since"
    newer = [step("add", [A, B], *USED, *OVER), step("add", [A, B, BELOW_B], *LOOKED_UP)]
    gone = {"asked": 2, "told": 2, "freed": 2}
    assert told(LRU, *newer, step("evict", [B, node(0, [3, 3], 3)], result=gone)) == NOTHING, "B is no leaf"
    assert evicted([A, B], [B], world()) == NOTHING, "no order is promised"
    assert evicted([A, B, BELOW_A], [A, B]) == NOTHING, "the lookup ended above it"


# --------------------------------------------------------------------------------- what was asked, and what nodes show

ASKED = world(page=2, order=None, events=False, checks_in=False)
UPPER, LOWER = node(-1, [0, 1], 0), node(0, [1, 1], 1)
INSERTED: list[Effect] = [comes("r0", 0, 1, 1, 1), ["inserted", "r0", 4, [0, 1, 2, 3], 0]]
STRANGE, ELSEWHERE = node(-1, [7, 7], 5), node(-1, [0, 1], 4)

DONE: dict[str, tuple[list[Effect], list[TreeNode]]] = {
    "R5": ([["inserted", "r0", 4, [0, 1, 2, 3], 4]], [UPPER, LOWER]),
    "R2": ([["evicted", 2, [2, 3]]], [UPPER]),
    "R4": ([["matched", "r0", 4, [0, 1, 2, 3]]], [UPPER, LOWER]),
}
"""What is done to a tree of two nodes, and what it has then; by the rule that it breaks if it has not."""

WRONG = {
    "in the tree, not inserted": lambda nodes: [*nodes, STRANGE],
    "inserted elsewhere": lambda nodes: [ELSEWHERE, *nodes[1:]],
    "inserted, not in the tree": lambda nodes: nodes[:-1],
}


@pytest.mark.parametrize("oracle", WRONG)
@pytest.mark.parametrize("rule", DONE)
def test_a_tree_has_what_was_inserted_and_not_evicted_and_nothing_else(rule: str, oracle: str) -> None:
    effects, right = DONE[rule]
    first = step("insert", [UPPER, LOWER], *INSERTED)
    assert told(ASKED, first, step("next", right, *effects)) == NOTHING
    assert told(ASKED, first, step("next", WRONG[oracle](right), *effects)) == [(rule, oracle)]


def test_what_was_evicted_and_is_there_is_not_inserted() -> None:
    first = step("insert", [UPPER, LOWER], *INSERTED)
    effects, _ = DONE["R2"]
    assert told(ASKED, first, step("evict", [UPPER, LOWER], *effects)) == [("R2", "in the tree, not inserted")]

"""Whatever a driver tells in the right form: it is judged, or the sentence says what is wrong with it; the judge itself
never fails on it."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvproof.engines.driver.requests import more_oracles
from kvproof.judge.history import history
from kvproof.judge.judging import faults
from kvproof.judge.record import (
    Answer,
    Case,
    Effect,
    Group,
    PoolState,
    State,
    Step,
    Tier,
    TreeNode,
    TreePart,
    TreeState,
    World,
)
from kvproof.judge.shapes import DIALECT, EFFECTS
from kvproof.judge.violation import KIT, Verdict, of_key
from kvproof.testing.telling import _ASKED, tell

REQUESTS = ["r0", "r1"]
GROUPS = [Group("full", 2), Group("window", 2, 3), Group("chunk", 2, 4), Group("mamba", 4)]

small = st.integers(0, 6)
counts = st.lists(small, max_size=6)
blocks = st.lists(st.integers(0, 4) | st.integers(0, 8), max_size=4)
tiers = st.sampled_from(["device", "cpu"])


def fields(groups: int) -> dict[str, st.SearchStrategy[Any]]:
    """Values of each kind of field."""
    places = st.tuples(tiers, st.integers(0, 4)).map(list)
    cells = st.tuples(st.integers(0, 4), st.integers(0, groups - 1), st.lists(st.integers(-1, 9000), max_size=3))
    items = st.lists(st.tuples(small, small, st.sampled_from("ab")).map(list), max_size=2)
    return {
        "request": st.sampled_from(REQUESTS),
        "name": st.sampled_from(REQUESTS),
        "what": st.fixed_dictionaries({"tokens": counts}, optional={"items": items, "skip": st.booleans()}),
        "items": items,
        "count": small,
        "entry": small,
        "counts": counts,
        "end": st.sampled_from(["finished", "aborted"]),
        "group": st.integers(0, groups - 1),
        "blocks": blocks,
        "block": st.integers(0, 4),
        "tables": st.lists(blocks, min_size=groups, max_size=groups),
        "leaves": st.lists(st.tuples(st.integers(0, 4), small).map(list), max_size=2),
        "pairs": st.lists(st.tuples(places, places).map(lambda pair: [*pair[0], *pair[1]]), max_size=2),
        "spans": st.lists(st.tuples(places, small, places, small, small).map(_span), max_size=2),
        "outside": st.lists(st.tuples(places, small, small).map(lambda at: [*at[0], *at[1:]]), max_size=2),
        "tier": tiers,
        "names": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "phase": st.sampled_from(["begin", "end", "fail"]),
        "order": st.sampled_from(["behind", "void"]),
        "moment": st.sampled_from(["begin", "end"]),
        "id": st.integers(0, 2),
        "stamps": st.lists(st.integers(-1, 9000), max_size=4),
        "held": st.lists(cells.map(list), max_size=2),
        "evicted": evicted(),
        "totals": st.dictionaries(st.sampled_from(["hits", "queries", "x"]), small, max_size=2),
    }


def _span(told: tuple[list[Any], int, list[Any], int, int]) -> list[Any]:
    source, first, destination, to, count = told
    return [*source, first, *destination, to, count]


@st.composite
def evicted(draw: st.DrawFn) -> list[list[Any]]:
    """The nodes that an eviction met, each below one before it or at the root."""
    slots = st.lists(st.integers(0, 9), max_size=3)
    of_nodes = draw(st.lists(slots, max_size=3))
    left = [draw(st.none() | st.integers(0, len(each))) for each in of_nodes]
    more = [[draw(small), draw(st.booleans()), draw(st.booleans())] for _ in of_nodes]
    return [[draw(st.integers(-1, n - 1)), each, left[n], *more[n]] for n, each in enumerate(of_nodes)]


@st.composite
def effects(draw: st.DrawFn, groups: int) -> list[Any]:
    """An effect of any kind, each field of the right kind."""
    kind = draw(st.sampled_from(sorted(EFFECTS)))
    of = fields(groups)
    told: list[Any] = [kind]
    for field in EFFECTS[kind]:
        value = of[field.removesuffix("?")]
        told.append(draw(st.none() | value if field.endswith("?") else value))
    while told[-1] is None and draw(st.booleans()):
        told.pop()
    return told


@st.composite
def pools(draw: st.DrawFn, groups: int) -> PoolState:
    """A pool's state, or a part of it."""
    keys = st.tuples(small, st.integers(0, groups - 1), st.lists(st.integers(0, 4), max_size=2))
    return PoolState(
        ref=draw(st.none() | st.lists(st.integers(0, 2), min_size=5, max_size=5)),
        free=draw(st.none() | st.lists(st.integers(0, 4), max_size=5)),
        num_free=draw(st.none() | small),
        cached=draw(st.none() | st.lists(keys, max_size=2)),
    )


@st.composite
def nodes(draw: st.DrawFn, groups: int) -> list[TreeNode]:
    """Nodes of a tree, each below one before it or at the root."""
    part = st.tuples(st.lists(st.integers(0, 9), max_size=4), st.none() | st.integers(0, 2))
    return [
        TreeNode(
            draw(st.integers(-1, at - 1)),
            (None, draw(st.sampled_from([None, "salt"]))),
            draw(counts),
            draw(st.lists(st.integers(0, 9), max_size=4)),
            draw(st.none() | st.integers(0, 2)),
            draw(st.lists(part, min_size=groups - 1, max_size=groups - 1)),
            draw(st.just([]) | st.lists(part, min_size=groups, max_size=groups)),
        )
        for at in range(draw(st.integers(0, 3)))
    ]


@st.composite
def trees(draw: st.DrawFn, groups: int) -> TreeState:
    """A tree's state, or a part of it."""
    told = draw(nodes(groups) if groups > 1 else st.none() | nodes(groups))
    where = st.dictionaries(st.sampled_from(REQUESTS), st.integers(-1, len(told or ()) - 1), max_size=2)
    part = st.builds(TreePart, st.none() | small, st.none() | small, where)
    return TreeState(
        told,
        draw(st.none() | st.lists(st.integers(0, 9), max_size=4)),
        draw(st.none() | small),
        draw(st.none() | small),
        draw(st.dictionaries(st.sampled_from(REQUESTS), blocks, max_size=2)),
        draw(where),
        draw(st.lists(part, min_size=groups - 1, max_size=groups - 1)),
        draw(where),
    )


@st.composite
def states(draw: st.DrawFn, groups: int) -> State:
    """What is there after an operation."""
    return State(
        draw(st.dictionaries(tiers, pools(groups), max_size=2)),
        draw(st.dictionaries(st.sampled_from(REQUESTS), fields(groups)["tables"], max_size=2)),
        draw(st.dictionaries(tiers, blocks, max_size=2)),
        *draw(st.tuples(small, small, small)),
        draw(st.none() | trees(groups)),
    )


@st.composite
def dialects(draw: st.DrawFn) -> dict[str, Any]:
    """What a driver declares, each in a word that there is."""
    named = st.fixed_dictionaries({}, optional={name: st.sampled_from(words) for name, words in DIALECT.items()})
    return draw(st.fixed_dictionaries({}, optional={"dialect": named, "reads": st.just("cpu")}))


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Two requests arrive, and then anything is told."""
    groups = draw(st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2))
    device = Tier(5, draw(st.sampled_from([None, 0])))
    host = Tier(5, by_key=draw(st.booleans()))
    world = World(groups, {"device": device, "cpu": host}, 2, draw(st.booleans()), draw(dialects()))
    arrive = [["request", r, {"tokens": draw(counts)}] for r in REQUESTS]
    steps = [Step("start", {"request": "r0"}, effects=arrive)]
    for _ in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from(["start", "step", "finish", "evict", "reset", "mirror", "drain"]))
        args = {"request": draw(st.sampled_from(REQUESTS)), "block": draw(st.integers(0, 4))}
        told = draw(st.lists(effects(len(groups)), max_size=4))
        state = draw(st.none() | states(len(groups)))
        left = st.fixed_dictionaries({"left": small, "pending": small})
        result = draw(left if op == "drain" else st.none() | st.booleans())
        steps.append(Step(op, args, result=result, effects=told, state=state))
    return Answer(0, world, steps)


NO_BLOCKS_OF_NO_TOKENS: list[Any] = ["stored", "device", None, [], None, [], 0, ["a"]]
"""And still it says what the key of one is made of."""


@settings(max_examples=3 * settings().max_examples)
@given(answers())
@example(
    Answer(
        0,
        World([Group("full", 2)], {"device": Tier(5)}, 2),
        [Step("start", {"request": "r0"}, effects=[NO_BLOCKS_OF_NO_TOKENS])],
    )
)
def test_the_judge_never_fails(answer: Answer) -> None:
    """Nor that of drivers. Where it does, that is told as a fault of the kit."""
    of_drivers = more_oracles(Case("requests", {}, []))
    for _, found in (*faults(answer), *faults(answer, of_drivers)):
        assert not [violation for violation in found if violation.rule == KIT]


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 4) | st.sampled_from(["r0", "device", *sorted(EFFECTS), *_ASKED]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["salt", "tokens"]), inner, max_size=2),
    max_leaves=8,
)


@settings(max_examples=3 * settings().max_examples)
@given(answers(), st.lists(st.lists(anything, max_size=4), min_size=1, max_size=4))
def test_what_is_no_effect_can_be_told(answer: Answer, told: list[Effect]) -> None:
    """It is judged and shown, with what led there."""
    answer.steps[-1].effects.extend(told)
    case = Case("requests", {}, [(step.op, step.args) for step in answer.steps])
    found = [*faults(answer, more_oracles(case))]
    assert found
    for at, violations in found:
        assert all(violation.rule != KIT for violation in violations)
        assert [*tell("exec:driver", case, Verdict(violations[0], at, answer, tuple(violations[1:])))]


def test_a_parent_may_be_left_out_of_an_event() -> None:
    """Beside others where it is told; and so is what became of a key that such an event names."""
    told: list[Effect] = [
        ["request", "r0", {"tokens": [0, 0, 0, 0, 0]}], ["keys", "r0", 0, [0, 1]], ["stored", "device", None, [1]],
        ["boundary", "device"],
    ]  # fmt: skip
    none, one = (State({"device": PoolState(cached=cached)}) for cached in ([], [(1, 0, [0])]))
    steps = [Step("start", {"request": "r0"}, state=none), Step("start", {"request": "r1"}, effects=told, state=one)]
    answer = Answer(0, World([Group("full", 2)], {"device": Tier(5)}, 2), steps)
    assert not [found for _, found in faults(answer, more_oracles(Case("requests", {}, []))) if found[0].rule == KIT]
    assert "an event says that it is stored (device)" in history(answer, 1, of_key(1))[-1][1]


def test_words_that_are_none_are_told_before_what_is_judged_by_them() -> None:
    said: list[Effect] = [["request", "r0", {"tokens": [1, 2, 3]}], ["lookup", "r0", -1, 0, 2]]
    world = World([Group("full", 2)], {"device": Tier(5)}, 2, notes={"dialect": {"keep": "all"}})
    [(_, found)] = faults(Answer(0, world, [Step("start", {}, effects=said)]), more_oracles(Case("requests", {}, [])))
    assert [violation.rule for violation in found][:2] == ["L2", "P14"]
    assert "-1 is no count" in found[0].text


def test_what_speaks_of_tokens_that_were_not_told_is_named() -> None:
    said: list[Effect] = [["request", "r0", {"tokens": [1, 2]}], ["keys", "r0", 0, [5, 6]]]
    world = World([Group("full", 2)], {"device": Tier(5)}, 2)
    [(step, [violation])] = faults(Answer(0, world, [Step("start", {}, effects=said)]))
    assert (step, violation.rule) == (0, "L2")
    assert "the first 4 tokens of r0 are spoken of, and it has 2" in violation.text

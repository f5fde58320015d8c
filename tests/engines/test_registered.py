"""What a cache has that forgets nothing by itself, by hand: what it must have, and what an evict says (P14, P11)."""

from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.judging import Judge
from kvproof.judge.oracles.registered import RegisteredOracle
from kvproof.judge.record import Effect, Error, Group, PoolState, State, Step, Tier, World

FULL = Group("full", 2)
PROMPT: list[Effect] = [["request", "r0", {"tokens": [5, 6, 7, 8, 9]}], ["keys", "r0", 0, [0, 1]]]
"""Two whole blocks, keys 0 and 1, and half of a third one."""

Told = list[tuple[str, str]]
"""Rules and oracles."""

MISSING = [("P14", "what was computed is not cached")]
SAID = [("P11", "what an evict says")]
LEFT = [("P11", "evict leaves an entry")]


def state(*keys: int, held: tuple[int, ...] = ()) -> State:
    """These keys are cached, each at the block behind its number; the request holds these blocks."""
    pool = PoolState(cached=[(k, 0, [k + 1]) for k in keys])
    return State({"device": pool}, {"r0": [[*held]]} if held else {})


def said(*steps: Step, of: Group = FULL) -> Told:
    world = World([of], {"device": Tier(9, null=0)}, 2)
    judge, oracle, ghost = Judge(world, lambda world: [RegisteredOracle(world)]), RegisteredOracle(world), Ghost(world)
    found: Told = []
    for step in steps:
        for effect in step.effects:
            list(ghost.apply(effect) or ())
        own = [(violation.rule, violation.oracle) for violation in oracle.step(step, ghost)]
        assert {*own} <= {(violation.rule, violation.oracle) for violation in judge.step(step)}, "the judge tells it"
        found += own
    return found


def grow(done: int, after: State) -> Step:
    """So much of the request has been computed."""
    return Step("grow", {}, effects=[["processed", "r0", done]], state=after)


START = Step("start", {}, effects=PROMPT, state=State({"device": PoolState(cached=[])}))
RUN = [START, grow(5, state(0, 1, held=(1, 2, 3)))]


@pytest.mark.parametrize(
    ("done", "cached", "told"),
    [(1, (), []), (2, (0,), []), (2, (), MISSING), (5, (0, 1), []), (5, (0,), MISSING), (5, (1,), MISSING)],
)
def test_each_block_that_is_filled_is_cached(done: int, cached: tuple[int, ...], told: Told) -> None:
    assert said(START, grow(done, state(*cached, held=(1, 2, 3)))) == told


@pytest.mark.parametrize(
    ("op", "args", "result", "told"),
    [
        ("finish", {}, None, MISSING),
        ("finish", {"drop": 1}, None, []),
        ("reset", {}, True, []),
        ("reset", {}, False, MISSING),
        ("evict", {}, True, []),
        ("tidy", {}, None, MISSING),
    ],
)
def test_what_is_cached_stays_until_something_is_done_that_forgets_it(
    op: str, args: dict[str, Any], result: Any, told: Told
) -> None:
    end = Step("finish", {}, state=state(0, 1)) if op != "finish" else grow(5, state(0, 1, held=(1, 2, 3)))
    assert said(*RUN, end, Step(op, {"request": "r0", **args}, result=result, state=state())) == told


@pytest.mark.parametrize(("of", "told"), [(FULL, MISSING), (Group("window", 2, 4), [])])
def test_what_a_window_leaves_behind_is_not_followed(of: Group, told: Told) -> None:
    assert said(START, grow(5, state(held=(1, 2, 3))), of=of) == told


def test_behind_an_error_nobody_knows_what_is_cached() -> None:
    failed = Step("grow", {}, error=Error("ValueError", "no"))
    assert said(START, failed, grow(5, state(held=(1, 2, 3)))) == []


@pytest.mark.parametrize(
    ("held", "result", "left", "told"),
    [
        ((), True, (), []),
        ((), False, (), SAID),
        ((1, 2, 3), False, (0, 1), []),
        ((1, 2, 3), True, (0, 1), SAID),
        ((1,), True, (0,), []),
        ((1,), False, (0,), SAID),
        ((), True, (0,), LEFT),
        ((), False, (0, 1), SAID + LEFT),
        ((), 2, (), []),
        ((1, 2, 3), None, (0, 1), []),
    ],
    ids=[
        "all go", "all go, and it says that none did", "all are held", "all are held, and it says that some went",
        "some go", "some go, and it says that none did", "one is left", "none goes", "a number is no such answer",
        "nor is nothing",
    ],
)  # fmt: skip
def test_an_evict_says_whether_anything_went(
    held: tuple[int, ...], result: Any, left: tuple[int, ...], told: Told
) -> None:
    before = Step("finish", {}, state=state(0, 1, held=held))
    evict = Step("evict", {}, result=result, state=state(*left, held=held))
    assert said(*RUN, before, evict) == told
    skipped = Step("evict", {}, skipped=True, result=result, state=state(0, 1, held=held))
    assert said(*RUN, before, skipped) == []


def test_a_map_that_is_not_shown_is_not_an_empty_one() -> None:
    hidden = State({"device": PoolState(ref=[0] * 9)})
    assert said(Step("start", {}, effects=PROMPT, state=hidden), grow(5, hidden)) == []

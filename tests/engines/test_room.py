"""What is refused, and in which order what is given up is taken again: by hand (P7, P10)."""

from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.judging import Judge, judge
from kvproof.judge.oracles.freed import FreedOracle
from kvproof.judge.oracles.refusals import RefusalsOracle
from kvproof.judge.oracles.room import RoomOracle
from kvproof.judge.record import Answer, Effect, Group, PoolState, State, Step, Tier, World

FULL, WINDOW, STATES = Group("full", 2), Group("window", 4, 3), Group("mamba", 2)


def world(*groups: Group, exact: bool = True) -> World:
    return World([*groups], {"device": Tier(9, null=0)}, 2, exact)


def refused(groups: list[Group], tokens: int, tables: list[list[int]], free: list[int], *more: Any) -> list[str]:
    """What is said of a refusal of slots for so many tokens; more: blocks for others, and where a lookup had it go
    on."""
    others, goes_on = [*more, 0, 0][:2]
    told: list[Effect] = [
        ["request", "r", {"tokens": [1] * 9}], ["lookup", "r", goes_on, 0, 8],
        ["refused", "r", tokens, tables, free, others],
    ]  # fmt: skip
    of, step = world(*groups), Step("run", {}, result=False, effects=told)
    ghost = Ghost(of)
    for effect in told:
        list(ghost.apply(effect) or ())
    found = [violation.oracle for violation in RefusalsOracle(of).step(step, ghost)]
    answer = judge(Answer(1, of, [step]))
    assert [violation.oracle for violation in (answer[1] if answer else [])] == found, "it judges every engine"
    return found


@pytest.mark.parametrize(
    ("tables", "free", "more", "said"),
    [
        ([[]], [1, 2, 3], (), True),
        ([[]], [1, 2], (), False),
        ([[7, 8]], [3], (), True),
        ([[7, 8]], [], (), False),
        ([[7, 1]], [1, 2], (), True),
        ([[7, 1]], [1], (), False),
        ([[]], [1, 2, 3], (1,), False),
        ([[7]], [1, 2], (0, 1), False),
        ([[7]], [1, 2, 3], (0, 1), True),
    ],
    ids=[
        "room", "one too few", "one more is wanted", "none is free", "what is found and free is taken too",
        "what is found leaves no room", "kept for others", "what is found in part is copied", "with room for that",
    ],
)  # fmt: skip
def test_five_tokens_in_blocks_of_two_are_refused_where_three_blocks_are_not_free(
    tables: list[list[int]], free: list[int], more: tuple[int, ...], said: bool
) -> None:
    assert refused([FULL], 5, tables, free, *more) == ["refused though there is room"] * said


def test_each_group_wants_blocks_of_its_own_and_of_states_nobody_knows_how_many() -> None:
    assert refused([FULL, WINDOW], 5, [[], []], [1, 2, 3, 4, 5]) == ["refused though there is room"]
    assert refused([FULL, WINDOW], 5, [[], []], [1, 2, 3, 4]) == []
    assert refused([FULL, STATES], 5, [[], []], [1, 2, 3, 4, 5, 6, 7, 8]) == []


def freed(
    free: list[int],
    *,
    named: tuple[int, ...] = (1, 2, 3),
    anew: tuple[int, ...] = (),
    ref: int = 1,
    table: bool = False,
    found: bool = False,
    op: str = "finish",
    of: Any = None,
) -> Any:
    """What is said where r gives up blocks 1, 2, 3 and 4, of which those named carry a hash, ``anew`` another one."""
    before = PoolState([0, ref, ref, ref, ref], [5], hashes=[(block, [(block, 0)]) for block in named])
    after = PoolState(free=free, hashes=[(block, [(block + 9 * (block in anew), 0)]) for block in named])
    effects: list[Effect] = [["table", "s", 0, 0, [2]]] if table else []
    effects += [["found", "s", [[2]], 2]] if found else []
    oracle, ghost = FreedOracle(of or world(FULL)), Ghost(world(FULL))
    held = Step("run", {}, state=State({"device": before}, {"r": [[1, 2, 3, 4]]}))
    gone = Step(op, {}, effects=effects, state=State({"device": after}))
    return [violation.key for step in (held, gone) for violation in oracle.step(step, ghost)]


def test_the_last_block_is_the_first_to_be_taken_again() -> None:
    assert freed([4, 5, 3, 2, 1]) == freed([5, 4, 3, 2, 1]) == []
    assert freed([4, 5, 3, 1, 2]) == freed([4, 5, 1, 2, 3]) == [("cached",)]
    assert freed([3, 4, 5, 2, 1], named=(1, 2)) == [("not cached",)]


def test_an_order_that_others_have_a_part_in_is_not_judged() -> None:
    assert freed([4, 5, 3, 1, 2], ref=2) == []
    assert freed([4, 5, 3, 1, 2], table=True) == []
    assert freed([4, 5, 3, 1, 2], found=True) == []  # It was found for another one, who was refused.
    assert freed([4, 5, 3, 1, 2], anew=(2,)) == []
    assert freed([4, 5, 3, 1, 2], op="evict") == freed([4, 5, 3, 1, 2], op="reset") == []
    assert freed([4, 5, 3, 1, 2], of=world(FULL, exact=False)) == []
    assert freed([4, 5, 3, 1, 2], of=world(Group("window", 2, 8))) == []


ROOM = [("P7", "refused though there is room")]


def grown(
    of: World, free: list[int], table: list[int], *, most: int = 1, result: bool = False, kept: tuple[int, ...] = ()
) -> list[tuple[str, str]]:
    """What is said where r, which has stored two of its nine tokens, asks for room for more; and of a fork of it."""
    pool = PoolState(free=free, cached=[(block, 0, [block]) for block in kept])
    tokens: dict[str, Any] = {"tokens": [1] * 9}
    tables = [table for _ in of.groups]
    after = State({"device": pool}, {"r": tables, "f": tables})
    steps = [
        Step("start", {}, effects=[["request", "r", tokens], ["lookup", "r", 0, 0, 8]], state=after),
        Step("grow", {"request": "r"}, result=True, effects=[["processed", "r", 2]], state=after),
        Step("fork", {"request": "r"}, effects=[["request", "f", tokens]], state=after),
    ]
    found: dict[str, list[tuple[str, str]]] = {}
    for r in ("r", "f"):
        whole = Judge(of, lambda of: [RoomOracle(of)])
        last = [*steps, Step("grow", {"request": r, "most": most}, result=result, state=after)]
        told = [(violation.rule, violation.oracle) for step in last for violation in whole.step(step)]
        found[r] = [each for each in told if each in ROOM]
    assert found["r"] == found["f"], "a fork goes on where its source is"
    return found["r"]


RING = Group("window", 2, 4)


@pytest.mark.parametrize(
    ("free", "table", "most", "told"),
    [
        ([3], [1], 1, ROOM),
        ([], [1], 1, []),
        ([3], [1], 2, ROOM),
        ([3], [1], 3, []),
        ([3, 4], [1], 3, ROOM),
        ([], [1, 2], 2, ROOM),
        ([], [1, 2], 3, []),
        ([3, 4, 5, 6], [1], 99, ROOM),
        ([3, 4, 5], [1], 99, []),
    ],
)
def test_some_tokens_more_are_refused_where_as_many_blocks_as_they_want_are_not_free(
    free: list[int], table: list[int], most: int, told: list[tuple[str, str]]
) -> None:
    assert grown(world(FULL), free, table, most=most) == told
    assert grown(world(FULL), free, table, most=most, result=True) == []


def test_what_is_kept_for_its_content_is_no_room() -> None:
    assert grown(world(FULL), [3], [1], kept=(1,)) == ROOM
    assert grown(world(FULL), [3], [1], kept=(1, 3)) == []
    assert grown(world(FULL), [3, 4], [1], kept=(1, 3)) == ROOM


def test_a_window_wants_no_more_than_it_sees() -> None:
    assert grown(world(RING), [], [1, 2], most=5) == ROOM
    assert grown(world(FULL), [], [1, 2], most=5) == []
    assert grown(world(RING), [], [1], most=5) == []


def test_each_group_wants_its_own_and_only_of_one_kind_any_block_will_do() -> None:
    assert grown(world(FULL, FULL), [3, 4], [1]) == ROOM
    assert grown(world(FULL, FULL), [3], [1]) == []
    assert grown(world(FULL, RING), [3, 4], [1]) == []

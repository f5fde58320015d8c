"""P6 of lookups, by hand: what is handed out is judged as far as the request attends to it."""

from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.record import Effect, Group, Tier, World
from kvproof.judge.violation import Violation

FULL, WINDOW, MAMBA = Group("full", 2), Group("window", 2, 4), Group("mamba", 2)
TOKENS = [*range(10)]


def judged(groups: list[Group], *effects: Effect) -> list[Violation]:
    """What is wrong with the last effect, after a request whose first two blocks another one left behind."""
    ghost = Ghost(World(groups, {"device": Tier(40, null=0), "remote": Tier(9)}, 2))
    first: list[Effect] = [["request", "r0", {"tokens": TOKENS}]]
    for g, group in enumerate(groups):
        leaves = [["state", "r0", g, None, [[10 * g + 2, 4]]]]
        first += leaves if group.kind == "mamba" else [["table", "r0", g, 0, [10 * g + 1, 10 * g + 2]]]
    first += [["compute", "r0", 0, TOKENS[:4]], ["request", "r1", {"tokens": TOKENS}]]
    for effect in first:
        assert not list(ghost.apply(effect) or ())
    return [wrong for effect in effects for wrong in ghost.apply(effect) or ()]


def load(block: int) -> Effect:
    """A copy from elsewhere to a block begins."""
    return ["copy", 1, "begin", [["remote", 0, "device", block]]]


def found(*tables: list[int]) -> Effect:
    return ["found", "r1", [*tables], 4]


def lookup(external: int) -> Effect:
    return ["lookup", "r1", 4, external, 9]


@pytest.mark.parametrize("group", [FULL, WINDOW], ids=["full", "window"])
def test_a_block_that_was_found_and_is_overwritten_is_told(group: Group) -> None:
    assert not judged([group], lookup(0), found([1, 2]))
    wrong = judged([group], lookup(0), load(2), found([1, 2]))
    assert [(each.rule, each.oracle) for each in wrong] == [("P6", "a lookup handed out")]


def test_what_left_the_window_behind_tokens_from_elsewhere_is_nobodys() -> None:
    # Behind ten tokens a window of four sees positions 7 to 9: both blocks that were found are free for the load.
    assert not judged([WINDOW], lookup(6), load(2), found([1, 2]))
    # Behind six it sees the second one.
    wrong = judged([WINDOW], lookup(2), load(2), found([1, 2]))
    assert [(each.rule, each.oracle) for each in wrong] == [("P6", "a lookup handed out")]
    assert not judged([WINDOW], lookup(2), load(1), found([1, 2]))
    # Full attention sees all.
    assert judged([FULL], lookup(6), load(2), found([1, 2]))


def test_a_lookup_counts_once() -> None:
    again: list[Any] = [lookup(6), found([1, 2]), load(2), found([1, 2])]
    assert [each.oracle for each in judged([WINDOW], *again)] == ["a lookup handed out"]


def test_a_state_that_comes_with_tokens_from_elsewhere_is_not_taken_here() -> None:
    assert not judged([MAMBA], lookup(0), found([0, 2]))
    assert [each.oracle for each in judged([MAMBA], lookup(0), found([0, 0]))] == ["a state was taken"]
    assert not judged([MAMBA], lookup(2), found([0, 0]))


def test_what_was_not_handed_out_is_of_one_cause_with_what_is_read_in_its_place() -> None:
    took: list[Any] = [lookup(0), found([1]), ["table", "r1", 0, 0, [1, 3, 4]], ["compute", "r1", 4, TOKENS[4:6]]]
    assert [each.oracle for each in judged([FULL], *took)] == ["a lookup handed out"]
    # The next lookup is judged anew, and what was handed out and is overwritten is another cause.
    assert [each.oracle for each in judged([FULL], *took[:2], lookup(0), found([1]))] == ["a lookup handed out"] * 2
    right: list[Any] = [lookup(0), found([1, 2]), ["table", "r1", 0, 0, [1, 2, 4]], load(2)]
    assert [each.oracle for each in judged([FULL], *right, took[-1])] == ["a forward pass read"]

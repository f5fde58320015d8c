"""Batches under way, by hand: a copy from another tier knows nothing of the order in which steps write (O8)."""

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.ghost.memory import Memory, said
from kvproof.judge.record import Effect, Group, Tier, World

BEGINS: Effect = ["batch", "begin"]
ENDS: Effect = ["batch", "end"]
RUNS: list[Effect] = [["table", "r0", 0, 0, [1, 2]], ["compute", "r0", 0, [0, 1, 2, 3]]]
LEAVES: list[Effect] = [["preempted", "r0"]]


def load(block: int, *order: str) -> Effect:
    """A copy from elsewhere to a block begins."""
    return ["copy", 1, "begin", [["remote", 0, "device", block]], *order]


def told(*effects: Effect) -> list[tuple[str, str]]:
    """What is wrong with these, after a request with four tokens came."""
    ghost = Ghost(World([Group("full", 2)], {"device": Tier(9, null=0), "remote": Tier(9)}, 2))
    first: Effect = ["request", "r0", {"tokens": [0, 1, 2, 3]}]
    return [(wrong.rule, wrong.oracle) for effect in (first, *effects) for wrong in ghost.apply(effect) or ()]


WRONG = [("O8", "copy under a step's write")]


def test_a_copy_waits_for_what_a_step_writes_though_its_request_is_gone() -> None:
    assert told(BEGINS, *RUNS, *LEAVES, load(2)) == WRONG
    assert not told(BEGINS, *RUNS, *LEAVES, load(3))
    assert not told(BEGINS, *RUNS, *LEAVES, ENDS, load(2))


def test_batches_end_in_the_order_in_which_they_began() -> None:
    assert told(BEGINS, *RUNS, *LEAVES, BEGINS, load(2)) == WRONG
    assert not told(BEGINS, *RUNS, *LEAVES, BEGINS, ENDS, load(2))
    assert told(BEGINS, BEGINS, *RUNS, *LEAVES, ENDS, load(2)) == WRONG


@pytest.mark.parametrize(
    "effect", [["zero", "device", [2]], ["copied", [["device", 1, "device", 2]]]], ids=["cleared", "copied"]
)
def test_a_step_clears_and_copies_when_it_runs(effect: Effect) -> None:
    assert told(BEGINS, effect, load(2)) == WRONG
    assert not told(BEGINS, effect, load(3))
    assert not told(BEGINS, effect, ENDS, load(2))


def test_what_comes_from_elsewhere_at_once_is_there_before_the_step_runs() -> None:
    assert not told(BEGINS, ["copied", [["remote", 1, "device", 2]]], load(2))


def test_where_steps_overlap_with_nothing_no_batch_is_told() -> None:
    assert not told(*RUNS, *LEAVES, load(2))
    assert not told(ENDS, *RUNS, *LEAVES, load(2))


def test_a_copy_that_waits_for_the_steps_before_it_comes_after_what_they_write() -> None:
    assert not told(BEGINS, *RUNS, *LEAVES, load(2, "behind"))
    assert told(BEGINS, load(2, "behind"), *RUNS) == [("O8", "write under a copy")]


def test_of_two_copies_to_a_place_the_one_that_waits_for_the_other_is_what_stays() -> None:
    tiers = {"device": Tier(9, null=0), "host": Tier(9)}
    first: Effect = ["request", "r0", {"tokens": [0, 1, 2, 3]}]
    one: Effect = ["copy", 1, "begin", [["device", 1, "host", 5]]]
    two: Effect = ["copy", 2, "begin", [["device", 2, "host", 5]]]
    ends: list[Effect] = [["copy", 1, "end"], ["copy", 2, "end"]]
    for order, is_known in (([None, 1], True), ([], False)):
        ghost = Ghost(World([Group("full", 2)], tiers, 2))
        for effect in (first, *RUNS, one, [*two, *order], *ends):
            list(ghost.apply(effect) or ())
        assert (ghost.memory.cell("host", 5) == ghost.memory.cell("device", 2)) is is_known


@pytest.mark.parametrize(
    "writes", [["copy", 2, "begin", [["device", 2, "host", 5]]], ["copied", [["device", 2, "host", 5]]]]
)
def test_no_copy_writes_to_what_an_unfinished_one_reads(writes: Effect) -> None:
    """O8: but where it waits for that, brings what is there, or nobody waits for what is read."""
    tiers = {"device": Tier(9, null=0), "host": Tier(9)}
    asks: Effect = ["request", "r0", {"tokens": [0, 1, 2, 3]}]
    there: Effect = ["copied", [["device", 1, "host", 5]]]

    def wrong(*effects: Effect) -> list[str]:
        ghost = Ghost(World([Group("full", 2)], tiers, 2))
        return [wrong.oracle for effect in (asks, *RUNS, there, *effects) for wrong in ghost.apply(effect) or ()]

    reads: Effect = ["copy", 1, "begin", [["host", 5, "device", 3]]]
    assert wrong(reads, writes) == ["copy under a copy"]
    assert not wrong(reads, ["copy", 1, "end"], writes)
    assert not wrong(reads, [*writes[:-1], [["device", 1, "host", 5]]]), "it is there already"
    assert not wrong([*reads, "void"], writes)
    if writes[0] == "copy":
        assert not wrong(reads, [*writes, "behind", 1])
        assert not wrong(reads, ["copy", 3, "begin", [["device", 1, "host", 6]], "behind", 1], [*writes, "behind", 3])


def test_what_a_reset_made_void_is_stored_by_nobody() -> None:
    """O3: the store that comes after the reset is the first."""
    planned: Effect = ["copy", 1, "begin", [["device", 1, "remote", 5]], "void"]
    again: Effect = ["copy", 2, "begin", [["device", 1, "remote", 6]], "behind", 1]
    assert not told(*RUNS, planned, again)
    assert told(*RUNS, [*planned[:4]], again) == [("O3", "stored twice")]


def test_of_a_place_that_only_a_copy_may_have_written_no_group_is_named() -> None:
    memory = Memory(["device"])
    memory.tear("device", 1)
    assert said(memory.cell("device", 1), 0, 1, 1) == "what a copy may or may not have written"


def overwritten(*effects: Effect) -> bool:
    """Whether a copy out of block 1 is disturbed; a request has four tokens, all of one block."""
    ghost = Ghost(World([Group("full", 4)], {"device": Tier(9, null=0), "host": Tier(9)}, 2))
    asks: Effect = ["request", "r0", {"tokens": [0, 1, 2, 3]}]
    other: Effect = ["request", "r1", {"tokens": [7, 7, 7, 7]}]
    given: list[Effect] = [["table", r, 0, 0, [1]] for r in ("r0", "r1")]
    told = [wrong for effect in (asks, other, *given, *effects) for wrong in ghost.apply(effect) or ()]
    return ("O8", "write under a copy") in {(wrong.rule, wrong.oracle) for wrong in told}


STORE: Effect = ["copy", 1, "begin", [["device", 1, "host", 5]]]


def test_what_is_written_behind_what_a_copy_brings_does_not_disturb_it() -> None:
    """A block that was partly filled; what a drafter said behind that is given up."""
    part: Effect = ["compute", "r0", 0, [0, 1]]
    draft: Effect = ["compute", "r0", 2, [9]]
    assert not overwritten(part, STORE, draft, ["compute", "r0", 2, [2, 3]])
    assert overwritten(part, draft, STORE, ["compute", "r0", 2, [2, 3]]), "it stood there when the copy began"
    assert overwritten(part, STORE, draft, ["compute", "r1", 0, [7, 7, 7, 7]]), "the block is another's"


def test_a_copy_that_begins_before_its_block_is_filled_brings_what_is_filled_in() -> None:
    whole: Effect = ["compute", "r0", 0, [0, 1, 2, 3]]
    assert not overwritten(STORE, whole)
    assert overwritten(STORE, whole, ["compute", "r1", 0, [7, 7, 7, 7]])


def test_what_another_sequence_left_behind_what_a_copy_brings_is_none_of_it() -> None:
    """A block that was copied from another request's, for a hit that ends within it."""
    theirs: Effect = ["compute", "r0", 0, [0, 1, 2, 3]]
    mine: Effect = ["compute", "r1", 0, [7, 7]]
    more: Effect = ["compute", "r1", 2, [7, 7]]
    assert not overwritten(theirs, mine, STORE, more)
    assert overwritten(theirs, STORE, more), "what the copy brings goes on there"
    assert overwritten(theirs, mine, STORE, mine, theirs), "and what stands before it is brought"

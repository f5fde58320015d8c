"""Attention that reads another tier too, and slots that are copied one by one (`docs/protocol.md`), by hand."""

from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.history import history
from kvproof.judge.oracles.freed import FreedOracle
from kvproof.judge.oracles.stored import StoredOracle
from kvproof.judge.record import Answer, Effect, Group, PoolState, State, Step, Tier, World
from kvproof.judge.shapes import problem_of_dialect, problems
from kvproof.judge.violation import of_block

TIERS = {"device": Tier(9, null=0), "host": Tier(9, null=0)}
COMES: Effect = ["request", "r0", {"tokens": [0, 1, 2, 3, 4]}]
OTHER: Effect = ["request", "r1", {"tokens": [5, 6, 7, 8]}]
WRITES: list[Effect] = [["table", "r0", 0, 0, [1, 2]], ["compute", "r0", 0, [0, 1, 2, 3]]]
ROWS: Effect = ["rows", [["device", 1, 0, "host", 3, 0, 2], ["device", 2, 0, "host", 4, 0, 2]]]
FROM_HOST: list[Effect] = [["table", "r0", 0, 0, [12, 13, 5]], ["compute", "r0", 4, [4]]]
"""Pages 3 and 4 of the host, and one of the device to be written."""


def world(exact: bool = False, **notes: Any) -> World:
    return World([Group("full", 2)], TIERS, 2, exact, {"reads": "host", **notes})


def told(*effects: Effect) -> list[tuple[str, str]]:
    ghost = Ghost(world())
    return [(wrong.rule, wrong.oracle) for effect in (COMES, *effects) for wrong in ghost.apply(effect) or ()]


READ = [("P6", "a forward pass read")]


def test_what_was_copied_slot_by_slot_is_read_where_it_lies() -> None:
    assert not told(*WRITES, ROWS, *FROM_HOST)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [["device", 1, 0, "host", 3, 0, 2]],
        [["device", 1, 0, "host", 3, 0, 2], ["device", 2, 0, "host", 4, 0, 1]],
        [["device", 1, 0, "host", 3, 0, 2], ["device", 2, 1, "host", 4, 0, 1], ["device", 2, 0, "host", 4, 1, 1]],
        [["device", 1, 0, "host", 4, 0, 2], ["device", 2, 0, "host", 3, 0, 2]],
    ],
    ids=["none", "a page too few", "a slot too few", "the wrong way round", "the wrong pages"],
)
def test_what_was_not_copied_is_not_read(rows: list[list[Any]]) -> None:
    assert set(told(*WRITES, ["rows", rows], *FROM_HOST)) == {*READ}


def test_slots_of_a_block_that_was_never_written_bring_nothing() -> None:
    over: Effect = ["rows", [["device", 8, 0, "host", 3, 1, 1]]]
    assert told(*WRITES, ROWS, over, *FROM_HOST) == READ
    assert not told(["rows", [["device", 8, 0, "host", 3, 0, 2]]])


def test_slots_that_a_block_has_not_are_copied_from_nowhere_to_nowhere() -> None:
    assert not told(
        *WRITES, ROWS, ["rows", [["device", 1, 0, "host", 3, 2, 5], ["device", 1, 9, "host", 3, 0, 1]]], *FROM_HOST
    )


def test_what_was_told_once_is_mended_where_it_lies() -> None:
    again: Effect = ["compute", "r0", 4, [4]]
    assert told(*WRITES, *FROM_HOST, again) == READ * 2  # Of each page once.


def test_a_forward_pass_writes_to_the_device_alone() -> None:
    assert told(["table", "r0", 0, 0, [12, 13]], ["compute", "r0", 0, [0, 1]]) == [("P6", "write without a block")]


def test_what_a_lookup_hands_out_may_lie_there_too() -> None:
    found: Effect = ["found", "r0", [[12, 13]], 4]
    assert not told(*WRITES, ROWS, found)
    assert told(*WRITES, found) == [("P6", "a lookup handed out")] * 2


# ------------------------------------------------------------------------------------------------ what is said


def wrong_words(notes: dict[str, Any], *effects: Effect, tables: list[list[int]] | None = None) -> list[str]:
    state = State({}, {"r0": tables or [[]]})
    steps = [Step("step", {}, effects=[COMES, *effects], state=state)]
    return [problem.kind for problem in problems(World([Group("full", 2)], TIERS, 2, notes=notes), steps)]


def test_tables_name_blocks_of_it_only_where_it_is_read() -> None:
    reads, table = {"reads": "host"}, ["table", "r0", 0, 0, [12, 17]]
    assert not wrong_words(reads, table, tables=[[12, 17]])
    assert wrong_words({}, table, tables=[[12]]) == ["effect", "state"]
    assert wrong_words(reads, ["table", "r0", 0, 0, [18]], tables=[[18]]) == ["effect", "state"]


def test_slots_are_copied_from_places_that_there_are() -> None:
    assert not wrong_words({}, ROWS)
    for span in (["device", 1, 0, "host", 3, 0], ["device", 9, 0, "host", 3, 0, 1], ["device", 1, -1, "host", 3, 0, 1]):
        assert wrong_words({}, ["rows", [span]]) == ["effect"]


@pytest.mark.parametrize("reads", ["device", "disk", 3])
def test_it_reads_a_tier_that_there_is(reads: Any) -> None:
    assert "attention reads" in str(problem_of_dialect(world(reads=reads)))


def test_a_page_has_its_story() -> None:
    answer = Answer(0, world(), [Step("step", {}, effects=[COMES, *WRITES, ROWS, *FROM_HOST])])
    of_host, of_device = (str(history(answer, 0, of_block(tier, n))) for tier, n in (("host", 3), ("device", 1)))
    assert "slots of device 1 are copied to it" in of_host
    assert "entry 0 of the table of r0 (group 0)" in of_host
    assert "slots of it are copied to host 3" in of_device
    assert "leaves the table of r0 (group 0)" in of_device


def test_the_order_of_what_is_freed_is_not_judged_there() -> None:
    """Tables do not tell of all that was taken meanwhile."""
    before = State({"device": PoolState(ref=[0, 1, 1, *[0] * 6], free=[3, 4], hashes=[])}, {"r0": [[1, 2]]})
    after = State({"device": PoolState(ref=[0] * 9, free=[3, 4, 1, 2], hashes=[])})
    for known, is_told in ((World([Group("full", 2)], TIERS, 2, exact=True), True), (world(exact=True), False)):
        oracle, ghost = FreedOracle(known), Ghost(known)
        assert not list(oracle.step(Step("step", {}, state=before), ghost))
        assert bool(list(oracle.step(Step("step", {}, state=after), ghost))) is is_told


# ------------------------------------------------------------------------------------------------ the same once more

LOADS: Effect = ["copy", "a", "begin", [["device", 1, "host", 3]]]


def read_after(*effects: Effect) -> list[tuple[str, str]]:
    return told(*WRITES, ROWS, *effects, *FROM_HOST)


def test_a_copy_of_what_is_there_already_changes_nothing() -> None:
    ends: Effect = ["copy", "a", "end"]
    assert not read_after(LOADS)
    assert not read_after(LOADS, ends)
    alike: Effect = ["rows", [["device", 1, 0, "host", 5, 0, 2]]]
    another: Effect = ["copy", "b", "begin", [["host", 5, "host", 3]]]
    assert not read_after(alike, LOADS, another, ends, ["copy", "b", "end"])


def test_unless_it_fails() -> None:
    assert read_after(LOADS, ["copy", "a", "fail"]) == READ


def test_or_brings_something_else() -> None:
    other: Effect = ["copy", "a", "begin", [["device", 2, "host", 3]]]
    assert read_after(other) == READ
    assert read_after(other, ["copy", "a", "end"]) == READ


# ------------------------------------------------------------------------------------------------ stored there (O9)


def never_stored(on_host: list[tuple[int, int, list[int]]], pages: int = 9) -> list[str]:
    """What is missing on a host of so many pages when r0 has ended, whose two pages were computed and written there."""
    tiers = {"device": Tier(9, null=0), "host": Tier(pages, null=0)}
    known = World([Group("full", 2), Group("full", 2)], tiers, 2, notes={"reads": "host", "eager": ["host"]})
    oracle, ghost = StoredOracle(known), Ghost(known)
    effects: list[Effect] = [COMES, ["keys", "r0", 0, [7, 8]], ROWS, ["processed", "r0", 4], ["end", "r0", "finished"]]
    for effect in effects:
        list(ghost.apply(effect) or ())
    cached = {"device": PoolState(cached=[(7, 1, [1]), (8, 1, [2])]), "host": PoolState(cached=on_host)}
    drained = Step("drain", {}, effects=effects, state=State(cached), result={"left": 0, "pending": 0, "steps": 3})
    return [violation.text for violation in oracle.step(drained, ghost)]


def test_what_the_device_has_cached_of_others_the_host_has_of_the_first_group() -> None:
    assert not never_stored([(7, 0, [3]), (8, 0, [4])])
    (text,) = never_stored([(7, 0, [3])])
    assert "block 1 of group 0 (key 8) was never stored to host" in text


def test_but_for_what_may_have_been_evicted() -> None:
    assert never_stored([(7, 0, [1])], pages=6)
    assert not never_stored([(7, 0, [1])], pages=3)

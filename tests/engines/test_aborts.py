"""How requests end (R7, L1), by hand: aborts that are lost, requests that are dropped, and what is neither."""

from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.oracles.aborts import AbortsOracle
from kvproof.judge.record import Group, Step, Tier, World

WORLD = World([Group("full", 1)], {"device": Tier(9, null=0)}, 1)
Told = tuple[str, dict[str, Any], Any, list[Any]]

ADD: Told = ("add", {"request": "r0"}, True, [["request", "r0", {"tokens": [0]}]])
REFUSED: Told = ("add", {"request": "r0"}, False, [["request", "r0", {"tokens": [0]}]])
RUN: Told = ("round", {}, 0, [["found", "r0", [[]], 0], ["compute", "r0", 0, [0]]])
ABORT: Told = ("abort", {"request": "r0"}, None, [])
ALL: Told = ("abort_all", {}, None, [])
FINISHED: Told = ("round", {}, 0, [["end", "r0", "finished"]])
ABORTED: Told = ("round", {}, 0, [["end", "r0", "aborted"]])


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([ADD, RUN, FINISHED], []),
        ([ADD, RUN, ABORT, ABORTED], []),
        ([ADD, RUN, ABORT, FINISHED], []),  # It was the last token.
        ([ADD, RUN, ALL, RUN, ABORTED], []),
        ([ADD, ABORTED], []),  # It never ran.
        ([REFUSED, RUN, ABORTED], []),
        ([ADD, RUN, ABORT, RUN, FINISHED], ["an abort that is lost"]),
        ([ADD, ALL, RUN, FINISHED], ["an abort that is lost"]),
        ([ADD, RUN, ABORTED], ["a request that is dropped"]),
    ],
)
def test_who_is_aborted_is_not_served_and_who_is_served_is_not_dropped(steps: list[Told], found: list[str]) -> None:
    oracle, ghost = AbortsOracle(WORLD), Ghost(WORLD)
    told = [Step(op, args, result=result, effects=effects) for op, args, result, effects in steps]
    assert [violation.oracle for step in told for violation in oracle.step(step, ghost)] == found

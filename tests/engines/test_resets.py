"""Resets, by hand: what one may leave, and what changes beside one (O10)."""

from typing import Any

from kvproof.judge.ghost import Ghost
from kvproof.judge.oracles.answers import AnswersOracle
from kvproof.judge.oracles.content import ContentOracle
from kvproof.judge.record import Effect, Group, PoolState, State, Step, Tier, World

HELD: list[tuple[int, int, list[int]]] = [(0, 0, [1])]
TIERS = {"device": Tier(9, null=0), "host": Tier(9), "below": Tier(9, persists=True)}


def state(**cached: list[tuple[int, int, list[int]]]) -> State:
    return State({tier: PoolState(cached=cached.get(tier, [])) for tier in TIERS})


def told(before: State, after: State, answer: bool, *effects: Effect, **args: Any) -> list[tuple[str, ...]]:
    """What is wrong with a reset between these states."""
    world = World([Group("full", 2)], TIERS, 2)
    oracle, ghost = AnswersOracle(world), Ghost(world)
    first: list[Effect] = [["request", "r0", {"tokens": [0, 1]}]]
    steps = [Step("add", {}, effects=first, state=before), Step("reset", args, False, answer, [*effects], after)]
    found = []
    for step in steps:
        for effect in step.effects:
            list(ghost.apply(effect) or ())
        found += [(wrong.oracle, *wrong.key) for wrong in oracle.step(step, ghost)]
    return found


def test_a_reset_of_the_connector_empties_all_but_what_outlives_it() -> None:
    held = state(device=HELD, host=HELD, below=HELD)
    assert not told(held, state(below=HELD), True, connector=1)
    assert told(held, state(host=HELD, below=HELD), True, connector=1) == [("reset leaves entries", "host")]
    assert not told(held, state(host=HELD, below=HELD), True)


def test_a_refused_reset_changes_nothing_but_a_step_that_ended_before_it_may() -> None:
    before, after = state(), state(device=HELD)
    assert told(before, after, False) == [("refused reset changes something", "device")]
    assert not told(before, after, False, ["processed", "r0", 2])
    assert not told(before, before, False)


def test_what_the_host_had_wrongly_the_tier_below_it_only_passes_on() -> None:
    """P6: one fault is told once."""
    world = World([Group("full", 2)], TIERS, 2)
    told: list[Effect] = [["request", "r0", {"tokens": [0, 1]}], ["keys", "r0", 0, [0]]]
    for pools, blamed in (({"host": HELD, "below": HELD}, ["host"]), ({"below": HELD}, ["below"])):
        oracle, ghost = ContentOracle(world), Ghost(world)
        step = Step("add", {}, effects=told, state=state(**pools))
        for effect in step.effects:
            list(ghost.apply(effect) or ())
        assert [wrong.key[0] for wrong in oracle.step(step, ghost)] == blamed

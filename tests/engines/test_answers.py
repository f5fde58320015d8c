"""What an engine answers, by hand: who asks that nothing be read for it is computed from its first token on (P14), and
a drain leaves nothing (L1, L2)."""

from kvproof.judge.ghost import Ghost
from kvproof.judge.oracles.answers import AnswersOracle
from kvproof.judge.record import Effect, Group, State, Step, Tier, World


def told(*effects: Effect, skip: bool = True) -> list[tuple[str, str]]:
    """What is wrong with these effects of one step, after a request of six tokens came."""
    world = World([Group("full", 2)], {"device": Tier(9, null=0)}, 2)
    ghost, oracle = Ghost(world), AnswersOracle(world)
    first: Effect = ["request", "r0", {"tokens": [*range(6)], "skip": skip}]
    for effect in (first, *effects):
        list(ghost.apply(effect) or ())
    return [(wrong.rule, wrong.oracle) for wrong in oracle.step(Step("step", {}, effects=[first, *effects]), ghost)]


def run(start: int, *tokens: int) -> Effect:
    return ["compute", "r0", start, [*tokens]]


WRONG = [("P14", "read though nothing is to be")]


def test_what_was_asked_not_to_be_read_is_computed() -> None:
    assert not told(run(0, 0, 1), run(2, 2, 3))
    assert told(run(2, 2, 3)) == WRONG
    assert told(run(0, 0, 1), run(4, 4, 5)) == WRONG
    assert not told(run(2, 2, 3), skip=False)


def test_who_was_preempted_begins_anew() -> None:
    assert not told(run(0, 0, 1), ["preempted", "r0"], run(0, 0, 1))
    assert told(run(0, 0, 1), ["preempted", "r0"], run(2, 2, 3)) == WRONG


def test_tokens_may_be_computed_twice() -> None:
    assert not told(run(0, 0, 1, 2, 3), run(2, 2, 3), run(4, 4, 5))


def drained(left: int, pending: int) -> list[str]:
    """What is wrong with a drain that leaves so many requests and transfers."""
    world = World([Group("full", 2)], {"device": Tier(9, null=0)}, 2)
    step = Step("drain", {}, result={"left": left, "pending": pending, "steps": 9})
    return [wrong.oracle for wrong in AnswersOracle(world).step(step, Ghost(world))]


def test_at_rest_a_tier_keeps_nothing_of_requests_that_are_over() -> None:
    world = World([Group("full", 2)], {"device": Tier(9, null=0)}, 2)
    for kept, left, told in ((1, 0, ["L2"]), (0, 0, []), (1, 1, ["L1"])):
        step = Step("drain", {}, result={"left": left, "pending": 0, "steps": 9, "kept": kept}, state=State({}))
        assert [wrong.rule for wrong in AnswersOracle(world).step(step, Ghost(world))] == told


def test_transfers_that_do_not_end_with_requests_that_never_do_are_of_one_cause() -> None:
    assert drained(0, 0) == []
    assert drained(0, 2) == ["transfers that never end"]
    assert drained(1, 0) == drained(1, 2) == ["requests that never end"]

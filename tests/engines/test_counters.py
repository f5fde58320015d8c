"""What is counted of lookups, by hand: who was scheduled is counted once a step behind it has ended (P15)."""

from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.oracles.counters import CountersOracle
from kvproof.judge.record import Effect, Group, Step, Tier, World

END: Effect = ["batch", "end"]


def comes(r: str, tokens: int = 4, found: int = 2, **more: Any) -> list[Effect]:
    """A request that is looked up and scheduled."""
    arrives: Effect = ["request", r, {"tokens": [1] * tokens, **more}]
    return [arrives, ["lookup", r, found, 0, tokens - 1], ["table", r, 0, 0, [1, 2]], ["compute", r, found, [1]]]


def counts(requests: int, queries: int, hits: int) -> Effect:
    return ["counts", {"requests": requests, "queries": queries, "hits": hits}]


def said(*steps: list[Effect], keep: str = "all", **notes: Any) -> list[tuple[str, ...]]:
    """What is wrong with the counters behind these steps."""
    world = World([Group("full", 2)], {"device": Tier(9, null=0)}, 2, notes={"dialect": {"keep": keep}, **notes})
    oracle, ghost, found = CountersOracle(world), Ghost(world), []
    for effects in steps:
        for effect in effects:
            list(ghost.apply(effect) or ())
        found += [violation.key for violation in oracle.step(Step("step", {}, effects=effects), ghost)]
    return found


def test_who_was_scheduled_is_counted_when_a_step_ends() -> None:
    assert said([*comes("r0"), END, counts(1, 4, 2)]) == []
    assert said([*comes("r0"), END, counts(1, 4, 2)], [*comes("r1"), END]) == [("requests",), ("queries",), ("hits",)]
    assert said([*comes("r0"), END, counts(1, 4, 2), *comes("r1")]) == [], "its step has not ended"


@pytest.mark.parametrize(
    ("told", "name"), [(counts(0, 4, 2), "requests"), (counts(1, 3, 2), "queries"), (counts(1, 4, 1), "hits")]
)
def test_each_counter_is_held_to_its_own_sum(told: Effect, name: str) -> None:
    assert said([*comes("r0"), END, told]) == [(name,)]


def test_only_who_comes_for_the_first_time_and_may_read_is_counted() -> None:
    first = [*comes("r0"), END, counts(1, 4, 2)]
    again: list[Effect] = [["preempted", "r0"], ["lookup", "r0", 2, 0, 3], ["compute", "r0", 2, [1]], END]
    assert said(first, again) == []
    waits: list[Effect] = [["request", "r1", {"tokens": [1] * 4}], ["lookup", "r1", 2, 0, 3], ["preempted", "r1"]]
    assert said(first, [*waits, ["compute", "r1", 2, [1]], END]) == []
    assert said(first, [*comes("r1", skip=True), END]) == []


def test_who_counts_nothing_is_not_held_to_anything() -> None:
    assert said([*comes("r0"), END]) == []
    assert said([*comes("r0"), END, counts(0, 0, 0)], keep="none") == []


@pytest.mark.parametrize(
    ("elsewhere", "names"),
    [
        ({"requests": 1, "queries": 2, "hits": 1}, []),
        ({"requests": 0, "queries": 2, "hits": 1}, ["requests"]),
        ({"requests": 1, "queries": 1, "hits": 1}, ["queries"]),
        ({"requests": 1, "queries": 2, "hits": 0}, ["hits"]),
        ({}, []),
    ],
)
def test_what_was_found_elsewhere_is_counted_too_where_that_is_counted_at_all(
    elsewhere: dict[str, int], names: list[str]
) -> None:
    told = {f"external_{name}": count for name, count in elsewhere.items()}
    loads: list[Effect] = [["request", "r0", {"tokens": [1] * 4}], ["lookup", "r0", 2, 1, 3], ["compute", "r0", 3, [1]]]
    found = said([*loads, END, ["counts", {"requests": 1, "queries": 4, "hits": 2, **told}]])
    assert found == [(f"external_{name}",) for name in names]


@pytest.mark.parametrize(
    ("by_source", "sources", "keys"),
    [
        ({"host": 3}, ["host"], []),
        ({"host": 1, "disk": 2}, ["host", "disk"], []),
        ({"host": 1, "disk": 2}, None, []),
        ({"host": 3, "disk": 0}, ["host"], []),
        ({"host": 2}, ["host"], [("external_hits",)]),
        ({"host": 3, "disk": 3}, ["host", "disk"], [("external_hits",)]),
        ({"host": 1, "disk": 2}, ["host"], [("disk",)]),
    ],
)
def test_hits_elsewhere_come_from_somewhere_and_are_all_of_them(
    by_source: dict[str, int], sources: list[str] | None, keys: list[tuple[str, ...]]
) -> None:
    """What metrics show by tier is what was found, and no tier is named that is not there."""
    told = {f"external_hits_from_{name}": count for name, count in by_source.items()}
    elsewhere = {"external_requests": 1, "external_queries": 4, "external_hits": 3}
    loads: list[Effect] = [["request", "r0", {"tokens": [1] * 4}], ["lookup", "r0", 0, 3, 3], ["compute", "r0", 3, [1]]]
    counted: Effect = ["counts", {"requests": 1, "queries": 4, "hits": 0, **elsewhere, **told}]
    assert said([*loads, END, counted], sources=sources) == keys

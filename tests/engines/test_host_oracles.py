"""A host's block pool behind the device's, by hand: what it has is not stored again (O3), and what changes nothing (O7,
P15), and what it has is found there (O6)."""

from typing import Any

import pytest
from msgspec.structs import replace as replaced

from kvproof.judge.ghost import Ghost
from kvproof.judge.judging import Judge
from kvproof.judge.oracles.content import ContentOracle
from kvproof.judge.oracles.host_hits import HostHitsOracle
from kvproof.judge.oracles.host_pool import HostPoolOracle
from kvproof.judge.oracles.host_stores import HostStoresOracle
from kvproof.judge.oracles.stored import StoredOracle
from kvproof.judge.record import Effect, Error, Group, PoolState, State, Step, Tier, World

Told = list[tuple[str, str, tuple[str, ...]]]

WORLD = World([Group("full", 2)], {"device": Tier(6, null=0), "host": Tier(6)}, 2)

Map = dict[int, int]
"""The block of each key."""


def state(device: Map, host: Map, *held: int, table: tuple[int, ...] = ()) -> State:
    """What both tiers have cached; ``held``: blocks of the host that copies hold."""
    pools = {
        tier: PoolState(
            cached=[(key, 0, [block]) for key, block in cached.items()],
            hashes=[(block, [(key, 0)]) for key, block in cached.items()],
        )
        for tier, cached in (("device", device), ("host", host))
    }
    return State(pools, tables={"r0": [[*table]]}, holds={"host": [*held]})


def told(oracle: Any, *steps: Step) -> Told:
    """What one oracle has to say of these steps, before the whole judge, but for contents and errors."""
    judge = Judge(WORLD, lambda _world: [oracle])
    return [(v.rule, v.oracle, v.key) for step in steps for v in judge.step(step) if v.rule not in ("P6", "L2")]


def stores(block: int, host: int) -> Effect:
    return ["copy", host, "begin", [["device", block, "host", host]]]


AGAIN: Told = [("O3", "stored though on the host", ())]
NOTHING: Told = []
BOTH = pytest.mark.parametrize("make", [HostPoolOracle, lambda: HostStoresOracle(WORLD)])

HAS, HAS_NOT, MOVED = {7: 4}, dict[int, int](), {7: 5}
ON_DEVICE = {7: 1}
REST = {"left": 0, "pending": 0, "steps": 1}


def stored(
    oracle: Any, before: Map, after: Map, *effects: Effect, op: str = "step", held: int = 0, **more: Any
) -> Told:
    """What is said where the host has had, and has then, these keys; block 1 of the device has key 7."""
    holds = (held,) if held else ()
    first = Step("add", {}, state=state(ON_DEVICE, before, *holds))
    arrives: Effect = ["request", "r0", {"tokens": [1, 2, 3]}]
    return told(oracle, first, Step(op, {}, effects=[arrives, *effects], state=state(ON_DEVICE, after), **more))


@BOTH
def test_what_the_host_has_all_the_while_is_not_stored_again(make: Any) -> None:
    assert stored(make(), HAS, HAS, stores(1, 2)) == AGAIN
    assert stored(make(), HAS, HAS) == NOTHING
    assert stored(make(), HAS_NOT, HAS, stores(1, 4)) == NOTHING, "it had it not"
    assert stored(make(), HAS, HAS_NOT, stores(1, 2)) == NOTHING, "it has dropped it"
    assert stored(make(), HAS, HAS, stores(2, 2)) == NOTHING, "that block has no key"
    assert stored(make(), HAS, HAS, ["copy", 2, "begin", [["host", 4, "device", 1]]]) == NOTHING, "that is a load"
    assert stored(make(), HAS, HAS, stores(1, 2), error=Error("E", "no")) == NOTHING


def test_what_was_planned_before_may_begin() -> None:
    assert stored(HostPoolOracle(), HAS, HAS, stores(1, 2), held=2) == NOTHING
    assert stored(HostPoolOracle(), HAS, HAS, stores(1, 2), held=3) == AGAIN
    assert stored(HostPoolOracle(), HAS, HAS, stores(1, 2), op="abort") == AGAIN
    assert stored(HostPoolOracle(), HAS, MOVED, stores(1, 5)) == NOTHING, "it is elsewhere since"
    assert stored(HostStoresOracle(WORLD), HAS, HAS, stores(1, 2), held=2) == NOTHING
    assert stored(HostStoresOracle(WORLD), HAS, HAS, stores(1, 2), held=3) == AGAIN
    assert stored(HostStoresOracle(WORLD), HAS, {**HAS, 8: 2}, stores(1, 2)) == NOTHING, "it comes under another key"
    assert stored(HostStoresOracle(WORLD), HAS, {**HAS, 8: 3}, stores(1, 2)) == AGAIN


def test_what_may_have_been_dropped_or_given_to_another_on_the_way_may_be_stored() -> None:
    assert stored(HostStoresOracle(WORLD), HAS, HAS, stores(1, 4)) == NOTHING, "it is what is written over"
    assert stored(HostStoresOracle(WORLD), HAS, MOVED, stores(1, 2)) == AGAIN
    assert stored(HostStoresOracle(WORLD), HAS, MOVED, stores(1, 2), op="drain", result=REST) == NOTHING
    assert stored(HostStoresOracle(WORLD), HAS, HAS, stores(1, 2), op="drain", result=REST) == AGAIN
    taken: Effect = ["table", "r0", 0, 0, [1]]
    assert stored(HostStoresOracle(WORLD), HAS, HAS, stores(1, 2), taken) == NOTHING, "it is another's since"
    assert stored(HostStoresOracle(WORLD), HAS, HAS, taken, stores(1, 2)) == AGAIN


def changed(op: str, now: State) -> Told:
    """What is said of an operation that leaves this state, where all had key 7 and a table one block."""
    return told(HostPoolOracle(), Step("step", {}, state=state(ON_DEVICE, HAS, table=(1,))), Step(op, {}, state=now))


SAME = state(ON_DEVICE, HAS, table=(1,))
CHANGES = {
    "tables": state(ON_DEVICE, HAS, table=(1, 2)),
    "device": state(HAS_NOT, HAS, table=(1,)),
    "host": state(ON_DEVICE, MOVED, table=(1,)),
}
HELD = state(ON_DEVICE, HAS, 3, table=(1,))


@pytest.mark.parametrize("what", CHANGES)
def test_a_repeated_completion_and_a_lookup_in_vain_change_nothing(what: str) -> None:
    repeated = ("O7", "a repeated completion changes something", ())
    refused = ("P15", "a refused admission changes something", (what,))
    assert changed("repeat", SAME) == changed("probe", SAME) == NOTHING
    assert changed("repeat", CHANGES[what]) == [repeated]
    assert changed("probe", CHANGES[what]) == [refused]
    assert changed("step", CHANGES[what]) == NOTHING


def test_a_repeated_completion_lets_go_of_nothing_that_copies_hold() -> None:
    assert changed("repeat", HELD) == [("O7", "a repeated completion changes something", ())]
    assert changed("probe", HELD) == NOTHING


CHUNKS = World([Group("full", 2)], {"device": Tier(6), "host": Tier(6, split=2)}, 2, notes={"loads": ["host"]})
"""Chunks of two blocks, of four tokens."""


def looked_up(local: int, found: int, *more: Effect, chunks: int = 2, said: dict[str, Any] | None = None) -> Told:
    """What is said of a lookup of eleven tokens, of which the host has so many chunks: they stand under the keys of
    their last blocks."""
    world = replaced(CHUNKS, notes={**CHUNKS.notes, **(said or {})})
    on_host = {key: block for block, key in enumerate((11, 13)[:chunks])}
    arrives: list[Effect] = [["request", "r0", {"tokens": [1] * 11}], ["keys", "r0", 0, [10, 11, 12, 13, 14]]]
    lookup: Effect = ["lookup", "r0", local, found, 11]
    ghost, oracle = Ghost(world), HostHitsOracle(world)
    steps = [
        Step("add", {}, effects=arrives, state=state({}, on_host)),
        Step("step", {}, effects=[lookup, *more], state=state({}, on_host)),
    ]
    for effect in (*arrives, lookup, *more):
        list(ghost.apply(effect) or ())
    return [(v.rule, v.oracle, v.key) for step in steps for v in oracle.step(step, ghost)]


NOT_FOUND: Told = [("O6", "what the host has is not found", ())]


@pytest.mark.parametrize(
    ("local", "found", "chunks", "said"),
    [(0, 8, 2, NOTHING), (0, 4, 2, NOT_FOUND), (0, 0, 1, NOT_FOUND), (0, 4, 1, NOTHING), (4, 0, 2, NOT_FOUND),
     (6, 0, 2, NOTHING), (2, 0, 2, NOT_FOUND), (2, 6, 2, NOTHING), (3, 0, 2, NOTHING), (8, 0, 2, NOTHING)],
)  # fmt: skip
def test_a_lookup_finds_all_chunks_of_the_host_but_for_less_than_a_whole_one(
    local: int, found: int, chunks: int, said: Told
) -> None:
    assert looked_up(local, found, chunks=chunks) == said


def test_what_was_not_on_the_host_all_the_time_or_is_not_looked_for_need_not_be_found() -> None:
    assert looked_up(0, 0, ["copy", "c", "begin", [["device", 1, "host", 2]]]) == NOT_FOUND, "the second chunk"
    assert looked_up(0, 4, ["copy", "c", "begin", [["device", 1, "host", 3]]]) == NOTHING
    assert looked_up(0, 0, said={"loads": []}) == NOTHING
    assert looked_up(0, 0, said={"dialect": {"drop": 2}}) == NOTHING, "a drafter wants the end computed again"


@pytest.mark.parametrize(("tokens", "said"), [(8, NOTHING), (9, NOT_FOUND)])
def test_one_token_is_left_to_be_computed_though_all_may_be_loaded(tokens: int, said: Told) -> None:
    arrives: list[Effect] = [["request", "r0", {"tokens": [1] * (tokens - 1)}], ["keys", "r0", 0, [10, 11, 12]]]
    grows: list[Effect] = [["append", "r0", [1]], ["keys", "r0", 3, [13]], ["lookup", "r0", 4, 0, tokens]]
    ghost, oracle = Ghost(CHUNKS), HostHitsOracle(CHUNKS)
    found = []
    for op, effects in (("add", arrives), ("step", grows)):
        for effect in effects:
            list(ghost.apply(effect) or ())
        found += [*oracle.step(Step(op, {}, effects=effects, state=state({}, {11: 0, 13: 1})), ghost)]
    assert [(v.rule, v.oracle, v.key) for v in found] == said


@pytest.mark.parametrize(
    ("whole", "blocks", "computed", "asked", "on_host", "told"),
    [([], 4, 9, {}, [], ["O9"]), (["host"], 4, 9, {}, [], ["O9"]), (["host"], 4, 9, {}, [11, 13], []),
     (["host"], 4, 9, {}, [11], ["O9"]), (["host"], 1, 9, {}, [], []), ([], 1, 9, {}, [], ["O9"]),
     (["host"], 4, 7, {}, [11], []), (["host"], 4, 9, {"stored": 7}, [11], []), (["host"], 4, 9, {"stored": 3}, [], []),
     (["host"], 4, 9, {"stored": 4}, [], ["O9"])],
)  # fmt: skip
def test_of_chunks_the_whole_ones_are_stored_where_an_offer_had_room(
    whole: list[str], blocks: int, computed: int, asked: dict[str, int], on_host: list[int], told: list[str]
) -> None:
    """Where an offer is taken as a whole or not at all, it had room for certain if everything has; and a request may
    ask that only so much of it be stored."""
    notes = {"eager": ["host"], "whole": whole}
    world = World([Group("full", 2)], {"device": Tier(6), "host": Tier(blocks, split=2)}, 2, notes=notes)
    effects: list[Effect] = [
        ["request", "r0", {"tokens": [1] * 9, **asked}], ["keys", "r0", 0, [10, 11, 12, 13]],
        ["table", "r0", 0, 0, [0, 1, 2, 3]], ["processed", "r0", computed], ["end", "r0", "finished"],
    ]  # fmt: skip
    ghost, oracle = Ghost(world), StoredOracle(world)
    for effect in effects:
        list(ghost.apply(effect) or ())
    end = state({10 + n: n for n in range(4)}, {key: n for n, key in enumerate(on_host)})
    step = Step("drain", {}, result={"left": 0, "pending": 0}, effects=effects, state=end)
    assert [violation.rule for violation in oracle.step(step, ghost)] == told


@pytest.mark.parametrize(
    ("kept", "again", "on_host", "rules"),
    [([], [10], [], ["O9"]), ([], [10], [10], []), ([], [], [], []), ([10], [10], [], [])],
)
def test_what_is_computed_again_behind_a_reset_is_stored_again(
    kept: list[int], again: list[int], on_host: list[int], rules: list[str]
) -> None:
    """What the device kept through it was computed before: the stores of that may be void."""
    world = World([Group("full", 2)], {"device": Tier(6), "host": Tier(6)}, 2, notes={"eager": ["host"]})
    asked: list[Effect] = [["keys", "r0", 0, [10]], ["processed", "r0", 2], ["end", "r0", "finished"]]
    effects: list[Effect] = [["request", "r0", {"tokens": [1] * 2}], *asked]
    ghost, oracle = Ghost(world), StoredOracle(world)
    for effect in effects:
        list(ghost.apply(effect) or ())
    rest, behind = {"left": 0, "pending": 0}, state(dict.fromkeys(again, 0), dict.fromkeys(on_host, 0))
    steps = [
        Step("drain", {}, result=rest, effects=effects, state=state({10: 0}, {10: 0})),
        Step("reset", {}, result=True, state=state(dict.fromkeys(kept, 0), {})),
        Step("drain", {}, result=rest, effects=asked, state=behind),
    ]
    assert [violation.rule for step in steps for violation in oracle.step(step, ghost)] == rules


@pytest.mark.parametrize(
    ("group", "brought", "told"),
    [(Group("window", 2, window=4), (1, 2), []), (Group("window", 2, window=4), (2,), ["P6"]),
     (Group("window", 2, window=3), (2,), []), (Group("window", 2, window=1), (2,), []),
     (Group("window", 2, window=1), (0, 1), ["P6"]), (Group("window", 2, window=9), (0, 1, 2), []),
     (Group("window", 2, window=9), (1, 2), ["P6"]), (Group("full", 2), (1, 2), ["P6"]),
     (Group("chunk", 2, window=4), (2,), []), (Group("chunk", 2, window=4), (1,), ["P6"])],
)  # fmt: skip
def test_of_a_chunk_of_several_blocks_a_window_has_what_is_attended_to_behind_it(
    group: Group, brought: tuple[int, ...], told: list[str]
) -> None:
    """Six tokens are one chunk of three blocks, and these of them were stored."""
    world = World([group], {"device": Tier(6), "host": Tier(6, split=3)}, 2)
    effects: list[Effect] = [
        ["request", "r0", {"tokens": [1] * 7}], ["keys", "r0", 0, [10, 11, 12]], ["table", "r0", 0, 0, [0, 1, 2, 3]],
        ["batch", "begin"], ["compute", "r0", 0, [1] * 6], ["batch", "end"], ["processed", "r0", 6],
        ["copied", [["device", n, "host", n] for n in brought]],
    ]  # fmt: skip
    ghost, oracle = Ghost(world), ContentOracle(world)
    for effect in effects:
        list(ghost.apply(effect) or ())
    assert [v.rule for v in oracle.step(Step("step", {}, effects=effects, state=state({}, {12: 0})), ghost)] == told


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("found", "said"), [(0, NOT_FOUND), (4, NOTHING), (8, NOTHING), (2, NOT_FOUND)])
def test_of_several_hosts_any_one_that_has_more_is_asked(found: int, said: Told, lost: bool) -> None:
    """Also one that has lost it by the end of the step, or in which something was stored meanwhile: nobody knows what
    it had when it was asked."""
    tiers = {**CHUNKS.tiers, "host2": Tier(6, split=2), "host3": Tier(6)}
    world = replaced(CHUNKS, tiers=tiers, notes={"loads": ["host", "host2", "host3"]})
    effects: list[Effect] = [["request", "r0", {"tokens": [1] * 11}], ["keys", "r0", 0, [10, 11, 12, 13, 14]]]
    lookup: Effect = ["lookup", "r0", 0, found, 11]
    ghost, oracle = Ghost(world), HostHitsOracle(world)
    for effect in (*effects, lookup):
        list(ghost.apply(effect) or ())
    pools = {"host": PoolState(cached=[(11, 0, [0]), (13, 0, [1])]), "host2": PoolState(cached=[(11, 0, [0])])}
    store: Effect = ["copy", "c", "begin", [["device", 1, "host3", 0]]]
    behind = {**pools, "host2": PoolState()} if lost else pools
    steps = [
        Step("step", {}, effects=told, state=State({**shown, "host3": PoolState()}))
        for told, shown in ((effects, pools), ([lookup], behind), ([lookup, store], pools))
    ]
    found_out = [(v.rule, v.oracle, v.key) for step in steps for v in oracle.step(step, ghost)]
    assert found_out == (NOTHING if lost else said)

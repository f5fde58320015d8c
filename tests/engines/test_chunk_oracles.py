"""LMCache's levels of chunks, by hand: what is told of each, and what is not (P5, P11, P15, O5, O12)."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.judging import Judge
from kvproof.judge.oracles.chunk_backend import ChunkBackendOracle
from kvproof.judge.oracles.chunk_engine import ChunkEngineOracle
from kvproof.judge.oracles.chunk_l1 import ChunkL1Oracle
from kvproof.judge.oracles.chunks import ChunkOracle
from kvproof.judge.record import Group, PoolState, State, Step, Tier, World

WORLD = World([Group("full", 4), Group("full", 4)], {"device": Tier(0), "host": Tier(40)}, 1)
"""Each chunk has two layers."""

Told = list[tuple[str, str]]
"""Rules and oracles."""

Makes = Callable[[World], ChunkOracle]


def has(*chunks: int, used: Iterable[int] = (), halves: Iterable[int] = (), busy: int = 0) -> State:
    """These chunks are there; some are used, of some only the first layer is there; so many stores are under way."""
    ref, cached = [0] * 40, []
    for k in sorted({*chunks, *used, *halves}):
        for g in (0,) if k in halves else (0, 1):
            ref[2 * k + g] = int(k in used)
            cached += [(4 * k + n, g, [2 * k + g]) for n in range(4)]
    return State({"host": PoolState(ref=ref, cached=cached)}, pending=busy, running=busy)


def said(makes: Makes, before: State, *steps: Step) -> Told:
    """What is wrong with these steps, behind one that leaves this state."""
    judge, oracle, ghost = Judge(WORLD, lambda world: [makes(world)]), makes(WORLD), Ghost(WORLD)
    first = Step("store", {"keys": [], "later": 1}, result={"taken": [], "refused": None, "in_need": []}, state=before)
    told: Told = []
    for step in (first, *steps):
        own = [(violation.rule, violation.oracle) for violation in oracle.step(step, ghost)]
        assert {*own} <= {(violation.rule, violation.oracle) for violation in judge.step(step)}, "the judge tells it"
        told += own
    return told


LOST = ("P5", "an entry is lost")
FOUND = ("P5", "a lookup finds what is there")
GOT = ("P5", "what is there can be got")
STORED = ("P5", "what is stored is there")
CLEARED = ("P11", "what is cleared is gone")
MEANT = ("P11", "clears what was not meant")
SAID = ("P15", "what a clear says")
GREEDY = ("O12", "evicts more than it needs")
ROOM = ("O12", "refused with room")
EVICTABLE = ("O12", "refused with enough evictable")
PINNED = ("O12", "evicts a pinned entry")
NOTHING = ("O12", "evicts nothing though it could")
RESERVED = ("O5", "what was reserved is gone")

Case = tuple[State, Step, Told]
"""What there was, what is done, and what is told of it."""


# ---------------------------------------------------------------------------------------------- LocalCPUBackend


def store(
    after: State, taken: Iterable[int] = (), refused: int | None = None, need: Iterable[int] = (), later: int = 0
) -> Step:
    """A store that found room for some chunks, was refused at one, and for which some did not fit at once."""
    result = {"taken": [*taken], "refused": refused, "in_need": [*need]}
    return Step("store", {"keys": [*taken], "later": later}, result=result, state=after)


def put(after: State, keys: list[int], layer: int) -> Step:
    return Step("put", {"keys": keys, "layer": layer}, state=after)


def lookup(after: State, keys: list[int], hits: list[int], **args: Any) -> Step:
    return Step("lookup", {"keys": keys, **args}, result={"hits": hits}, state=after)


def load(after: State, keys: list[int], got: list[int]) -> Step:
    return Step("load", {"keys": keys}, result={"got": got}, state=after)


def cleared(after: State, told: int, gone: int) -> Step:
    return Step("clear", {}, result={"told": told, "gone": gone}, state=after)


def plain(op: str, after: State, **args: Any) -> Step:
    return Step(op, args, state=after)


BACKEND: dict[str, Case] = {
    "gone behind an unpin": (has(0, 1), plain("unpin", has(1)), [LOST]),
    "there behind an unpin": (has(0, 1), plain("unpin", has(0, 1)), []),
    "gone behind a removal": (has(0, 1), plain("remove", has(1)), []),
    "gone behind a lookup": (has(0, 1), lookup(has(1), [0], [0]), [LOST]),
    "removed meanwhile": (has(0, 1), lookup(has(1), [0], [0], remove=1), []),
    "one is not found": (has(0, 1), lookup(has(0, 1), [0, 1], [0]), [FOUND]),
    "all are found": (has(0, 1), lookup(has(0, 1), [0, 1], [0, 1]), []),
    "none is there": (has(0), lookup(has(0), [1, 0], [1]), [FOUND]),
    "the prefix is found": (has(0), lookup(has(0), [1, 0], []), []),
    "half of one is found": (has(halves=[0], busy=1), lookup(has(halves=[0], busy=1), [0], [0]), [FOUND]),
    "half of one is not": (has(halves=[0], busy=1), lookup(has(halves=[0], busy=1), [0], []), []),
    "one cannot be got": (has(0, 1), load(has(0, 1), [0, 1], [0]), [GOT]),
    "all can be got": (has(0, 1), load(has(0, 1), [0, 1], [0, 1]), []),
    "all can be got, told in another order": (has(0, 1), load(has(0, 1), [0, 1], [1, 0]), []),
    "one that is gone is not got": (has(0), load(has(0), [0, 1], [0]), []),
    "not stored": (has(0), store(has(0), [1]), [STORED]),
    "half stored": (has(0), store(has(0, halves=[1], busy=1), [1]), [STORED]),
    "stored": (has(0), store(has(0, 1), [1]), []),
    "stored later": (has(0), store(has(0), [1], later=1), []),
    "not put": (has(), put(has(busy=1), [1], 0), [STORED]),
    "put": (has(), put(has(halves=[1], busy=1), [1], 0), []),
    "gone between layers, and not put": (has(busy=1), put(has(busy=1), [1], 1), []),
    "there behind a clear": (has(0, 1), cleared(has(1), 4, 4), [CLEARED]),
    "nothing is there behind a clear": (has(0, 1), cleared(has(), 8, 8), []),
    "what is used stays": (has(0, used=[1]), cleared(has(used=[1]), 4, 4), []),
    "more is cleared than is told": (has(0, 1), cleared(has(), 4, 8), [SAID]),
    "less is cleared than is told": (has(used=[0]), cleared(has(used=[0]), 4, 0), [SAID]),
    "evicts though it fits": (has(0, 1), store(has(1, 2), [2]), [GREEDY]),
    "evicts for want of room": (has(0, 1), store(has(1, 2), [2], need=[2]), []),
    "refused though it fits": (has(used=[0]), store(has(used=[0]), refused=2), [ROOM]),
    "another did not fit": (has(used=[0]), store(has(1, used=[0]), [1], refused=2, need=[1]), [ROOM]),
    "refused for want of room": (has(used=[0]), store(has(used=[0]), refused=2, need=[2]), []),
    "refused beside what nobody uses": (has(0, 1), store(has(1), refused=2, need=[2]), [EVICTABLE]),
    "refused beside what is used": (has(0, used=[1]), store(has(used=[1]), refused=2, need=[2]), []),
    "refused beside a half": (has(halves=[1], busy=1), store(has(halves=[1], busy=1), refused=2, need=[2]), []),
    "refused beside what it has put": (has(1), store(has(1), [1], refused=2, need=[2]), []),
}


@pytest.mark.parametrize("name", BACKEND)
def test_a_backend_is_held_to_what_it_has(name: str) -> None:
    before, step, told = BACKEND[name]
    assert said(ChunkBackendOracle, before, step) == told


# ------------------------------------------------------------------------------------------------ LMCacheEngine


def arrive(after: State, chunks: list[int], hits: int | None) -> Step:
    """A request of these chunks: four tokens each, but for the last, which has three."""
    sizes = [4] * (len(chunks) - 1) + [3]
    return Step("arrive", {}, result={"chunks": chunks, "sizes": sizes, "hits": hits}, state=after)


def clear(after: State, named: list[int] | None = None) -> Step:
    return Step("clear", {}, result={"chunks": named}, state=after)


def layer(after: State, wanted: list[int], taken: list[int], op: str = "layer", released: Iterable[int] = ()) -> Step:
    return Step(op, {}, result={"released": [*released], "wanted": wanted, "taken": taken}, state=after)


def drained(after: State) -> Step:
    return Step("drain", {}, result={"left": 0, "pending": 0}, state=after)


ENGINE: dict[str, Case] = {
    "gone behind an arrival": (has(0, 1), arrive(has(1), [0, 1], 7), [LOST]),
    "there behind an arrival": (has(0, 1), arrive(has(0, 1), [0, 1], 7), []),
    "gone behind a step": (has(0, 1), plain("step", has(1)), [LOST]),
    "gone behind a drain": (has(0, 1), drained(has(1)), []),
    "too few tokens are found": (has(0, 1), arrive(has(0, 1), [0, 1], 4), [FOUND]),
    "too many tokens are found": (has(0), arrive(has(0), [0, 1], 7), [FOUND]),
    "found behind a gap": (has(1), arrive(has(1), [0, 1], 3), [FOUND]),
    "nothing is found behind a gap": (has(1), arrive(has(1), [0, 1], 0), []),
    "half of one is found": (has(halves=[0], busy=1), arrive(has(halves=[0], busy=1), [0, 1], 4), [FOUND]),
    "half of one is not": (has(halves=[0], busy=1), arrive(has(halves=[0], busy=1), [0, 1], 0), []),
    "nobody knows yet": (has(0, 1), arrive(has(0, 1), [0, 1], None), []),
    "there though it was cleared": (has(0, 1), clear(has(0, 1), [0]), [CLEARED]),
    "cleared": (has(0, 1), clear(has(1), [0]), []),
    "cleared though it was not named": (has(0, 1), clear(has(), [0]), [MEANT]),
    "cleared though it was used": (has(0, used=[1]), clear(has()), [MEANT]),
    "all but what is used is cleared": (has(0, used=[1]), clear(has(used=[1])), []),
    "named, and cleared though it was used": (has(0, used=[1]), clear(has(0), [1]), []),
    "left out beside what nobody uses": (has(0, 1), layer(has(1, 2), [2, 3], [2]), [EVICTABLE]),
    "left out at the end": (has(0, 1), layer(has(1, 2), [2, 3], [2], op="finish"), [EVICTABLE]),
    "none is left out": (has(0, 1), layer(has(2, 3), [2, 3], [2, 3]), []),
    "left out beside what is used": (has(used=[0, 1]), layer(has(used=[0, 1]), [2], []), []),
    "left out beside a half": (has(halves=[1], busy=1), layer(has(halves=[1], busy=1), [2], []), []),
    "it is there already": (has(0, 2), layer(has(0, 2), [2], []), []),
}


@pytest.mark.parametrize("name", ENGINE)
def test_an_engine_is_held_to_what_it_has(name: str) -> None:
    before, step, told = ENGINE[name]
    assert said(ChunkEngineOracle, before, step) == told


# ---------------------------------------------------------------------------------------------------- L1Manager


def answered(op: str, after: State, *answers: str, **args: Any) -> Step:
    """The answers that the first keys get."""
    return Step(op, {"keys": [*range(len(answers))], "tag": "read", **args}, result={"answers": answers}, state=after)


def looks(after: State, keys: list[int], found: list[int]) -> Step:
    return Step("lookup", {"keys": keys}, result={"found": found}, state=after)


def evict(after: State, before: int, left: int, idle: Iterable[int] = (), abandoned: Iterable[int] = ()) -> Step:
    """A round of evictions, the units in use before it and after it, and the keys that could go."""
    result = {"before": before, "after": left, "idle": [*idle], "abandoned": [*abandoned]}
    return Step("evict", {}, result=result, state=after)


L1: dict[str, Case] = {
    "one is not found": (has(0, 1), looks(has(0, 1), [0, 1], [0]), [FOUND]),
    "one that is not there is found": (has(0), looks(has(0), [0, 1], [0, 1]), [FOUND]),
    "also behind a gap": (has(1), looks(has(1), [0, 1], [1]), []),
    "there behind a clear": (has(0, 1), plain("clear", has(1)), [CLEARED]),
    "there behind a reset": (has(0, 1), plain("reset", has(1)), [CLEARED]),
    "nothing is there behind a clear": (has(0, 1), plain("clear", has()), []),
    "what is read stays": (has(0, used=[1]), plain("clear", has(used=[1])), []),
    "what is read is cleared": (has(0, used=[1]), plain("clear", has()), [PINNED]),
    "it cannot be read": (has(0, 1), answered("read", has(0, 1), "SUCCESS", "KEY_NOT_EXIST"), [RESERVED]),
    "its reader cannot end": (has(0), answered("finish", has(0), "KEY_NOT_READABLE"), [RESERVED]),
    "its writer cannot end": (has(0), answered("finish", has(0), "KEY_NOT_WRITABLE", tag="store"), [RESERVED]),
    "all can be read": (has(0, 1), answered("read", has(0, 1), "SUCCESS", "SUCCESS"), []),
    "its reader ends": (has(0), answered("finish", has(0), "SUCCESS"), []),
    "nothing is evicted": (has(0), evict(has(0), 1, 1, idle=[0]), [NOTHING]),
    "no abandoned write is": (has(), evict(has(), 1, 1, abandoned=[0]), [NOTHING]),
    "something is evicted": (has(0, 1), evict(has(1), 2, 1, idle=[0, 1]), []),
    "nothing can be evicted": (has(used=[0]), evict(has(used=[0]), 1, 1), []),
    "what is read is evicted": (has(used=[0]), evict(has(), 1, 0), [PINNED]),
    "a deletion may find nothing": (has(), answered("delete", has(), "KEY_NOT_EXIST"), []),
}


@pytest.mark.parametrize("name", L1)
def test_a_manager_of_leases_is_held_to_what_it_has(name: str) -> None:
    before, step, told = L1[name]
    assert said(ChunkL1Oracle, before, step) == told


@pytest.mark.parametrize(("op", "told"), [("read", [LOST]), ("delete", []), ("evict", [])])
def test_what_a_manager_of_leases_has_stored_is_there_until_it_is_taken_away(op: str, told: Told) -> None:
    result = {"answers": ["SUCCESS"], "before": 1, "after": 0}
    stored = answered("finish", has(0), "SUCCESS", tag="store")
    assert said(ChunkL1Oracle, has(), stored, Step(op, {"keys": [0]}, result=result, state=has())) == told

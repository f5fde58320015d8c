"""Managers with a host tier in this process: planted faults are found by the host's rules, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

from kvproof.errors import UsageError
from kvproof.testing import BlockManager, Request, assert_played
from kvproof.testing.fuzzing import fuzz_manager

from . import host_faults
from .host_faults import FAULTS, OF_ADAPTERS

import test_offload as example  # isort: skip # host_faults puts its folder on the path
from offload import Copies, Offload  # isort: skip


OFTEN = ("StoresWithoutHold", "RegistersEarly", "NeverStores", "KeepsHolds", "RefusedResetEmptiesHost")
"""Those that are found soonest."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=() if f.__name__ in OFTEN else pytest.mark.slow) for f in FAULTS],
    ids=lambda fault: fault.__name__,
)
def test_a_planted_fault_is_found_by_a_rule_that_names_it(fault: type[Offload]) -> None:
    kind = type(fault.__name__, (example.TestOffload,), {"tier": fault})
    assert FAULTS[fault] & {*fuzz_manager(kind, seconds=60, findings=1).broken}


@pytest.mark.parametrize("fault", OF_ADAPTERS, ids=lambda fault: fault.__name__)
def test_loads_and_mirrors_are_judged_too(fault: type[example.TestOffload]) -> None:
    assert OF_ADAPTERS[fault] & {*fuzz_manager(fault, seconds=60, findings=1).broken}


@pytest.mark.parametrize("kind", [example.TestOffload, host_faults.Mirror])
def test_a_right_host_tier_stays_silent(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=120, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.activity.external_tokens
    mirror = {f"M{n}" for n in range(1, 7)}
    asynchronous = {"O9"}
    assert {*fuzzed.unjudged} == {"P4", "E3"} | (mirror if kind is example.TestOffload else asynchronous)


def test_of_what_the_host_has_and_is_not_found_it_is_told_how_it_came_there() -> None:
    kind = type("NeverFinds", (example.TestOffload,), {"tier": host_faults.NeverFinds})
    fuzzed = fuzz_manager(kind, seconds=60, findings=1)
    assert re.search(r"history of key \d+:(\n .*)* cached in block \d+ \(host, group 0\)", fuzzed.broken["O6"][0])


def test_a_block_that_is_handed_on_behind_its_store_is_not_taken_for_one_that_is_stored_again() -> None:
    """A drain stores one request's block and gives it to the next, whose content the host had before."""
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("start", {"request": "r1", "prompt": [1, 1], "most": 0}),
        ("mirror", {"requests": []}),
        ("preempt", {"request": "r0"}),
        ("drain", {}),
    ]
    assert_played(example.TestOffload, {"events": True, "block_tokens": 2, "host_blocks": 2, "blocks": 1}, operations)


def test_what_is_cached_under_a_copy_is_told_so() -> None:
    """And not as written by some group, where nobody had written there before."""
    operations: list[tuple[str, dict[str, object]]] = [("start", {"request": "r0", "prompt": [0, 0, 0]})]
    kind = type("Early", (example.TestOffload,), {"tier": host_faults.RegistersEarly})
    with pytest.raises(AssertionError, match=r"cached under key 0 .* but a copy may or may not have written it"):
        assert_played(kind, {"blocks": 3, "block_tokens": 2, "host_blocks": 3}, operations)


class _WritesBack(example.TestOffload):
    """What nobody holds any more goes to the host, whoever asked for a step; a store holds it until it is done."""

    eager = False

    def store(self, requests: Sequence[Request]) -> Iterator[tuple[list[bytes], Copies]]:
        for key, block in [*self.pool.cached.items()]:
            begun, copies = self.offload.store([key] if self.pool.blocks[block].ref_cnt == 0 else [], [block])
            if begun:
                yield begun, copies


def test_who_is_let_in_alone_goes_on_when_what_others_left_is_stored() -> None:
    """It needs all blocks: its first step has one of the other's written back, and nothing is under way then."""
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [1, 1, 1]}),
        ("start", {"request": "r1", "prompt": [0] * 9}),
        ("drain", {}),
    ]
    assert_played(_WritesBack, {"block_tokens": 3, "blocks": 3, "host_blocks": 1}, operations)
    assert fuzz_manager(_WritesBack, examples=120, seconds=60).broken == {}


def test_who_waits_is_not_cut_short_where_a_reload_may_be_registered_by_the_commit() -> None:
    """It would be a reload that leaves nothing cached (M5), and none that is to blame."""
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0]}),
        ("mirror", {"requests": ["r0"]}),
        ("finish", {"request": "r0"}),
        ("start", {"request": "r1", "prompt": [1, 1, 1, 1]}),
        ("start", {"request": "r2", "prompt": [0, 0, 0]}),
        ("finish", {"request": "r1"}),
        ("cut", {"request": "r2", "tokens": [0]}),
    ]
    assert_played(host_faults.Mirror, {"blocks": 2, "block_tokens": 2, "host_blocks": 4}, operations)


class _ShowsNoMap(example.TestOffload):
    """What the host has shows in what is found there alone."""

    host_cached: Any = BlockManager.host_cached


class _EmptiesTheDevice(_ShowsNoMap):
    def reset(self):
        return not self.offload.storing and self.pool.reset()


def test_what_the_host_keeps_behind_a_reset_shows_in_what_lookups_find() -> None:
    assert "O10" in fuzz_manager(_EmptiesTheDevice, examples=None, seconds=30, findings=1).broken
    assert fuzz_manager(_ShowsNoMap, examples=120, seconds=60).broken == {}


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("store", None, r"store\(\) answered None, which is no list of jobs with their copies"),
        ("store", [(1, [(0, 0, 0)])], r"store\(\) told \(0, 0, 0\), which is not \(a block, another one\)"),
        ("host_cached", [], r"host_cached\(\) answered \[\], which is no dictionary"),
    ],
)
def test_an_answer_of_the_wrong_shape_says_which_method_gave_it(method: str, answer: object, said: str) -> None:
    kind = type("Odd", (example.TestOffload,), {method: lambda *_: answer})
    start: list[tuple[str, dict[str, object]]] = [("start", {"request": "r0", "prompt": [0, 0, 0]})]
    with pytest.raises(AssertionError, match=said):
        assert_played(kind, {"blocks": 3, "block_tokens": 2, "host_blocks": 3}, start)


class _TakesFromTheLists(example.TestOffload):
    """What was found on either tier is taken hold of one by one, out of the request's own lists."""

    def allocate(self, request, tokens):
        is_first, held = request.name not in self.pool.tables, len(request.found)
        table = super().allocate(request, tokens)
        if is_first and table is not None:
            request.own = held
            request.found.clear()
        return table

    def load(self, request):
        copies = [*zip(request.on_host, request.table[request.own :], strict=False)]
        request.on_host.clear()
        return copies


class _LoadsLess(_TakesFromTheLists):
    def load(self, request):
        return super().load(request)[1:]


def test_what_was_found_may_be_taken_from_the_lists() -> None:
    assert fuzz_manager(_TakesFromTheLists, examples=200, seconds=60).broken == {}
    assert "P6" in fuzz_manager(_LoadsLess, examples=None, seconds=30, findings=1).broken


class _ChangesThose(example.TestOffload):
    def store(self, requests):
        for request in requests:
            request.computed = 0
        return []


def test_who_is_given_several_requests_leaves_each_as_it_was() -> None:
    start: list[tuple[str, dict[str, object]]] = [("start", {"request": "r0", "prompt": [0, 0, 0]})]
    with pytest.raises(AssertionError, match=r"store\(\) changed request.computed, which is the kit's"):
        assert_played(_ChangesThose, {"blocks": 3, "block_tokens": 2, "host_blocks": 3}, start)


class _LeastRecent(example.TestOffload):
    dialect: ClassVar = {"keep": "all", "evicts": "lru", "host_evicts": "lru"}


class _LatestFirst(Offload):
    """What was used last gives its place to the next one."""

    def make_room(self):
        for key in [*self.cached]:
            self.cached.move_to_end(key, last=False)
        done = super().make_room()
        for key in [*self.cached]:
            self.cached.move_to_end(key, last=False)
        return done


def test_a_host_that_promises_lru_is_held_to_it() -> None:
    assert fuzz_manager(_LeastRecent, examples=200, seconds=60).broken == {}
    found = fuzz_manager(type("Other", (_LeastRecent,), {"tier": _LatestFirst}), seconds=30, findings=1).broken
    assert [*found] == ["O12"]
    assert "(host)" in found["O12"][0]


class _StoresForOthers(example.TestOffload):
    """What it stores others read."""

    host_lookup: Any = BlockManager.host_lookup
    load: Any = BlockManager.load


def test_a_host_that_nothing_is_loaded_from_need_not_be_looked_up() -> None:
    fuzzed = fuzz_manager(_StoresForOthers, examples=120, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.unjudged["O6"] == "there is no host_lookup()"


@pytest.mark.parametrize("method", ["store", "load"])
def test_a_host_tier_by_halves_is_one_sentence(method: str) -> None:
    kind = type("Half", (example.TestOffload,), {method: getattr(BlockManager, method)})
    with pytest.raises(UsageError, match=re.escape("has a host tier by halves")):
        fuzz_manager(kind)

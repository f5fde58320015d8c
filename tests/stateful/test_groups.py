"""Machine Groups beside `HybridCache`: each call of the cache is a sequence of the machine's actions.

The machine takes, registers and drops one block at a time, and looks up group by group; the cache does each for all
groups at once. So no action is a call, and lockstep does not fit. Here every call is told to the machine as the actions
that it must be made of; each has to be possible, and afterwards tables, blocks, keys and counts have to be the same.

A machine's hash is in one block at most, so what would be filed twice is not filed here (P5 is machine P's).
"""

from functools import cache
from itertools import chain as chained
from math import lcm
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kvproof.checkers.lockstep import interpreter
from kvproof.checkers.target import NONE
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete
from kvproof.machine.scope import Scope
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid.cache import HybridCache
from kvproof.refimpl.hybrid.planner import Group
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.keys import chain_keys
from kvproof.spec.hybrid.groups import Groups

from .group_mutants import CACHES

Tables = tuple[tuple[int, ...], ...]

PROMPTS = [tuple(range(12)), (*range(9), 98, 98, 98), (*range(4), 97, 97, 97, 97), (96,) * 10]
"""Requests that have 9 tokens in common, or 4, or none."""

INSTANCES: dict[str, tuple[tuple[Group, ...], int]] = {
    "a window and states": ((Group(2, "window", 5), Group(2, "mamba")), 14),
    "attention and mamba": ((Group(2, "full"), Group(4, "mamba")), 14),
    "two sizes that do not divide": ((Group(2, "full"), Group(3, "window", 4)), 16),
    "two windows and attention": ((Group(2, "window", 3), Group(2, "window", 5), Group(4, "full")), 22),
}
"""Groups, and the blocks of the pool, the null block left out."""


def tokens_needed(group: Group, length: int) -> range:
    """The tokens whose KV a group needs behind ``length`` tokens: of a window those that the next token sees."""
    first = {"full": 0, "window": length - group.window + 1, "mamba": length - 1}[group.kind]
    return range(max(0, first), length)


@cache
def interpreted(name: str) -> Concrete:
    """The machine in the instance of that name; names of blocks say what they hold, as far as the prompts go."""
    groups, blocks = INSTANCES[name]
    longest = max(map(len, PROMPTS))
    positions = max(-(-longest // group.block) for group in groups)
    numbers: dict[Any, int] = {}

    def number(group: int, prompt: tuple[int, ...], position: int) -> int:
        end = (position + 1) * groups[group].block
        return numbers.setdefault((group, prompt[:end] if end <= len(prompt) else None, position), len(numbers))

    names = [[[number(g, prompt, i) for i in range(positions)] for prompt in PROMPTS] for g in range(len(groups))]
    params = {
        "needs": [
            [
                [
                    i < t // group.block and any(token // group.block == i for token in tokens_needed(group, t))
                    for i in range(positions)
                ]
                for t in range(longest + 1)
            ]
            for group in groups
        ],
        "is_boundary": [all(t % group.block == 0 for group in groups) for t in range(longest + 1)],
        "name": names,
        "limit": [len(prompt) - 1 for prompt in PROMPTS],
    }
    sizes = {
        "Group": len(groups),
        "Request": len(PROMPTS),
        "Position": positions,
        "Tokens": longest + 1,
        "Block": blocks,
        "Hash": len(numbers),
    }
    model = Model.of(Groups)
    spec = interpreter(model, Scope(model, sizes, params))
    assert spec.violations(spec.initial(), "assume") == []
    return spec


class Beside(RuleBasedStateMachine):
    """A cache and the machine. ``kind`` may be a broken cache, ``instance`` one of `INSTANCES`."""

    kind: type[HybridCache] = HybridCache
    instance: str

    @initialize(split=st.booleans())
    def begin(self, split):
        self.groups, blocks = INSTANCES[self.instance]
        self.spec = interpreted(self.instance)
        self.state = self.spec.initial()
        pool = BlockPool(blocks + 1, free_order="split" if split else "append")
        self.cache = self.kind(pool, 1, self.groups)
        self.chains = [chain_keys(prompt, 1) for prompt in PROMPTS]
        names = self.spec.scope.params["name"]
        self.key_of = {
            names[g][r][i]: self.cache.key(g, self.chains[r], i)
            for g, group in enumerate(self.groups)
            for r, prompt in enumerate(PROMPTS)
            for i in range(len(prompt) // group.block)
        }
        self.inside: dict[int, int] = {}
        """The requests inside, and how many of their tokens are there."""
        self.fresh: set[int] = set()
        """Those that have computed nothing: their counts are the machine's, which does not count what is computed."""
        self.filed: dict[int, int] = {}
        """Up to which token what is full was found or filed."""

    def do(self, action: str, *args: int) -> None:
        """An action that the call was made of: it has to be possible."""
        assert self.spec.is_enabled(self.state, action, args), f"{action}{args} is not possible"
        before = self.spec.copy(self.state)
        result = self.spec.apply(self.state, action, args).result
        assert self.spec.step_violations(before, self.state, action, args, result) == []

    def changed(self, r: int, before: Tables) -> None:
        """What a call took and gave back: blocks that went first, then those that came."""
        after = self.cache.tables(r) if r in self.inside else tuple(() for _ in before)
        moved = [
            (g, i, old, new)
            for g, (was, is_now) in enumerate(zip(before, after, strict=True))
            for i in range(max(len(was), len(is_now)))
            if (old := was[i] if i < len(was) else 0) != (new := is_now[i] if i < len(is_now) else 0)
        ]
        for g, i, old, _ in moved:
            if old:
                self.do("drop", g, r, i)
        for g, i, _, new in moved:
            if new:
                self.do("allocate", g, r, i, new - 1)

    # ------------------------------------------------------------------------------------------------ calls

    @rule(r=st.sampled_from(range(len(PROMPTS))), order=st.permutations(range(3)))
    def enter(self, r, order):
        """Whatever order the groups are asked in, the machine comes to the same length."""
        if r in self.inside or not self.cache.admit(r, len(PROMPTS[r])):
            return
        length = self.cache.hit(r, self.chains[r], len(PROMPTS[r]) - 1)
        self.do("seek", r)
        asked = [g for g in order if g < len(self.groups)]
        while not self.spec.is_enabled(self.state, "hit", (r,)):
            for g in asked:
                candidate = vars(self.state)["candidate"][0]
                served = next(
                    t for t in range(candidate, -1, -1) if self.spec.is_enabled(self.state, "shorten", (r, g, t))
                )
                self.do("shorten", r, g, served)
        self.do("hit", r)
        self.inside[r] = self.filed[r] = length
        self.fresh.add(r)

    @rule(data=st.data())
    def grow(self, data):
        if not self.inside:
            return
        r = data.draw(st.sampled_from(sorted(self.inside)))
        before = self.cache.tables(r)
        if self.cache.allocate(r, data.draw(st.integers(0, len(PROMPTS[r])))):
            self.changed(r, before)

    @rule(data=st.data(), r=st.sampled_from(range(len(PROMPTS))))
    def serve(self, data, r):
        """A whole request that computes and goes: what others find, or what pushes out what they would have found."""
        if r in self.inside:
            return
        self.enter(r, [0, 1, 2])
        before = self.cache.tables(r)
        if self.cache.allocate(r, len(PROMPTS[r])):
            self.changed(r, before)
            for end in sorted({data.draw(st.integers(self.inside[r], len(PROMPTS[r]))), len(PROMPTS[r])}):
                self.go_on(r, end)
                self.give_back_of(r)
        if data.draw(st.booleans()):
            self.go(r, is_preempted=False)

    @rule(data=st.data())
    def compute(self, data):
        """Go on, and file what is full, unless some of it is cached already."""
        if self.inside:
            r = data.draw(st.sampled_from(sorted(self.inside)))
            self.go_on(r, data.draw(st.integers(self.inside[r], len(PROMPTS[r]))))

    def go_on(self, r: int, end: int) -> None:
        room = min(len(PROMPTS[r]), *(len(t) * g.block for t, g in zip(self.cache.tables(r), self.groups, strict=True)))
        if end > room or end == self.inside[r]:
            return
        filed = [
            (g, i)
            for g, group in enumerate(self.groups)
            for i in range(self.filed[r] // group.block, end // group.block)
            if self.cache.tables(r)[g][i]
        ]
        cached = vars(self.state)["cached"]
        if any(cached[self.name(g, r, i)] != NONE for g, i in filed):
            return
        self.cache.register(r, self.chains[r], end)
        for g, i in filed:
            self.do("register", g, r, i)
        self.inside[r] = self.filed[r] = end
        self.fresh.discard(r)

    @rule(data=st.data())
    def load(self, data):
        """Just behind a hit. Room is made for all, and some of it comes; or for what is needed, and it comes or not."""
        candidates = sorted(r for r in self.fresh if self.cache.counts(r)[1] == 0)
        if not candidates:
            return
        r = data.draw(st.sampled_from(candidates))
        before, found = self.cache.tables(r), self.inside[r]
        grain = lcm(*(group.block for group in self.groups))
        target = data.draw(st.integers(found // grain + 1, found // grain + 3)) * grain
        if target >= len(PROMPTS[r]):
            return
        is_whole = data.draw(st.booleans()) or any(
            len(table) * group.block != found for table, group in zip(before, self.groups, strict=True)
        )
        room = data.draw(st.integers(target, len(PROMPTS[r])))
        if not self.cache.allocate(r, room, loaded=0 if is_whole else target):
            return
        self.changed(r, before)
        self.do("load", r, target - found)
        least = data.draw(st.sampled_from([0, found, found])) if is_whole else found
        came = st.integers(least, target) if is_whole else st.just(data.draw(st.sampled_from([target, found])))
        counts = [data.draw(came) for _ in self.groups]
        before = self.cache.tables(r)
        # Who has given up the beginning can go on from nothing less than what was found.
        is_lost = min(counts) < found and not all(all(table) for table in before)
        for g, count in enumerate(counts):
            self.do("report", g, r, 0 if is_lost else count)
        length = self.cache.settle(r, counts)
        self.do("settle", r, length)
        self.inside[r], self.filed[r] = length, min(self.filed[r], length)
        self.changed(r, before)
        for group, table in zip(self.groups, self.cache.tables(r), strict=True):
            needed = {token // group.block for token in tokens_needed(group, length)}
            assert {i for i, block in enumerate(table) if block} == needed, "just what is needed is there"

    @rule(data=st.data())
    def give_back(self, data):
        if self.inside:
            self.give_back_of(data.draw(st.sampled_from(sorted(self.inside))))

    def give_back_of(self, r: int) -> None:
        tables = self.cache.tables(r)
        before = [*chained(*tables)]
        dropped = self.cache.drop_outside(r)
        self.changed(r, tables)
        after = [*chained(*self.cache.tables(r))]
        assert sorted(dropped) == sorted(old for old, new in zip(before, after, strict=True) if old and not new)

    @rule(data=st.data(), is_preempted=st.booleans())
    def leave(self, data, is_preempted):
        if not self.inside:
            return
        self.go(data.draw(st.sampled_from(sorted(self.inside))), is_preempted=is_preempted)

    def go(self, r: int, *, is_preempted: bool) -> None:
        (self.cache.preempt if is_preempted else self.cache.finish)(r)
        self.do("leave", r)
        del self.inside[r]
        self.fresh.discard(r)

    # ------------------------------------------------------------------------------------------------ comparing

    def name(self, group: int, r: int, position: int) -> int:
        return int(self.spec.scope.params["name"][group][r][position])

    def has_what_it_needs(self, r: int) -> bool:
        """A request goes on from its tokens with what its tables hold."""
        return all(
            table[token // group.block]
            for table, group in zip(self.cache.tables(r), self.groups, strict=True)
            for token in tokens_needed(group, self.inside[r])
        )

    @invariant()
    def everything_is_the_same(self):
        if not hasattr(self, "cache"):
            return
        described, shown = self.spec.describe(self.state), self.cache.snapshot()
        blocks = range(1, self.spec.scope.sizes["Block"] + 1)
        assert [b in shown.pool.free for b in blocks] == described["free"]
        assert [list(shown.pool.keys.get(b, ())) for b in blocks] == [
            [] if h is None else [self.key_of[h]] for h in described["hash"]
        ]
        for h, key in self.key_of.items():
            block = self.cache.pool.lookup(key)
            assert (block and block - 1) == described["cached"][h]
        assert [r in shown.requests for r in range(len(PROMPTS))] == described["running"]
        for r, request in shown.requests.items():
            assert isinstance(r, int)
            for g, table in enumerate(request.tables):
                padded = [*table, *([0] * (self.spec.scope.sizes["Position"] - len(table)))]
                assert [None if b == 0 else b - 1 for b in padded] == described["table"][g][r]
            if r in self.fresh:
                assert (request.computed, request.external) == (described["computed"][r], described["external"][r])
            assert request.computed + request.external == self.inside[r]
            assert self.has_what_it_needs(r)


def check(kind: type[HybridCache], instance: str, examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    """Many runs of a cache in an instance."""
    run = type("Run", (Beside,), {"kind": kind, "instance": instance})
    profile = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(run, settings=profile)


@pytest.mark.parametrize("instance", INSTANCES)
def test_h4_the_cache_does_what_the_machine_does(instance):
    check(HybridCache, instance, settings().max_examples // 3)


def is_caught(kind: type[HybridCache], instance: str, examples: int) -> bool:
    try:
        check(kind, instance, examples, (Phase.generate,))
    except (AssertionError, RefusedError, StopIteration):
        return True
    return False


LONG = ("ComputedStays", "OnePass")
"""These go wrong in a few runs of hundreds."""


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow if k.__name__ in LONG else ()) for k in CACHES]
)
def test_each_fault_of_a_cache_is_noticed(kind):
    few = () if kind.__name__ in LONG else (40,)
    assert any(is_caught(kind, instance, examples) for examples in (*few, 400, 1600) for instance in INSTANCES)

"""M9: a host tier loses no hits. The theorem on random traces, the mutants that lose some, and where the theorem ends.

``docs/mirror-and-pin.md`` has the proof. A hash is a small number here; hashes are chained: ``PARENTS`` names the one
before each, 0 for a root.
"""

import random
from collections.abc import Sequence

import pytest

from benchmarks.m9_search import (
    Event,
    Policy,
    Request,
    Run,
    admit,
    compute,
    evict,
    finish,
    random_trace,
    requests_over,
    search,
    start,
)
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.manager import KVCacheManager, ManagerSnapshot
from kvproof.refimpl.pool.request_flow import RequestFlow
from kvproof.refimpl.tiers.host_tier import HostTier
from kvproof.refimpl.tiers.mirror import MirrorManager

BLOCK_TOKENS = 2


def key(h: int) -> bytes:
    return h.to_bytes(2, "big")


def exact(*path: int) -> Request:
    """A prompt that ends with a full block, which P14 keeps from being hit."""
    return Request(path, len(path) - 1, len(path))


def partial(*path: int) -> Request:
    """A prompt whose last block is partly filled."""
    return Request(path, len(path), len(path) + 1)


class BlisManager(MirrorManager):
    """Reloads first: to the tail, held by nobody; the bound is what is free at the start. Then it claims."""

    def _take_prefix(self, request_id, table, keys, asked):
        bound = self.pool.num_reclaimable
        for position, wanted in enumerate(keys[:asked]):
            if self.pool.lookup(wanted) is not None:
                continue
            if wanted not in self.host or bound == 0:
                break
            taken = self.pool.allocate(1)
            assert taken is not None
            self.pool.register(taken[0], wanted, keys[position - 1] if position else None)
            self.pool.free(taken)
            self.host.touch(wanted)
            bound -= 1
        KVCacheManager._take_prefix(self, request_id, table, keys, asked)
        self._filed[request_id] = dict(enumerate(keys[: len(table)]))

    def find(self, keys, limit):
        return KVCacheManager.find(self, keys, limit)


class PastLimitManager(MirrorManager):
    """Walks past P14's limit: what it finds there it holds and lets go again."""

    def hit(self, request_id, keys, limit):
        places = [block for block in self._places(keys, len(keys))[limit:] if block is not None]
        self.pool.touch(places)
        hits = super().hit(request_id, keys, limit)
        self.pool.free(places[::-1])
        return hits


class Side:
    """The reference implementation, led through the events of a search."""

    def __init__(self, blocks: int, capacity: int = 0, *, split: bool = True, late: bool = False, kind=MirrorManager):
        pool = BlockPool(blocks, free_order="split" if split else "append", null_block=False)
        self.manager = (
            kind(pool, block_tokens=BLOCK_TOKENS, host=HostTier(capacity))
            if capacity
            else KVCacheManager(pool, block_tokens=BLOCK_TOKENS)
        )
        self.flow = RequestFlow(self.manager)
        self.late = late
        self.inside: list[int] = []
        self.count = 0

    def do(self, event: Event) -> int | None:
        """Do what happens; return the hits of a request that is let in, ``None`` for one that is not."""
        kind, what = event
        if kind == "admit":
            return self.admit(what)
        if kind == "finish":
            self.flow.finish(self.inside.pop(what))
        elif kind == "evict":
            block = self.manager.pool.lookup(key(what))
            while block is not None:
                self.manager.evict(block)
                block = self.manager.pool.lookup(key(what))
        else:
            batch = [self.inside[place] for place in what]
            for name in batch:
                self.flow.compute(name)
            if isinstance(self.manager, MirrorManager):
                self.manager.mirror_batch(batch)
        return 0

    def admit(self, request: Request) -> int | None:
        name = self.count
        tokens = BLOCK_TOKENS * len(request.path) + (request.need > len(request.path))
        assert self.flow.add_hashed_request(name, tokens, [key(h) for h in request.path])
        self.count += 1
        hit_tokens = self.flow.schedule(name)
        if hit_tokens is None:
            self.flow.finish(name)  # It waits, so this forgets it.
            return None
        self.inside.append(name)
        if not self.late:
            self.do(("compute", [len(self.inside) - 1]))
        return hit_tokens // BLOCK_TOKENS

    def device(self) -> ManagerSnapshot:
        """The device side. Counters aside: hits are what may differ."""
        snapshot = self.manager.snapshot()
        return ManagerSnapshot(
            snapshot.pool, snapshot.tables, snapshot.needs, snapshot.counted, snapshot.queries, hits=0
        )

    def host(self) -> tuple[int, ...]:
        if not isinstance(self.manager, MirrorManager):
            return ()
        keys = self.manager.host.keys()
        return tuple(int.from_bytes(k, "big") for k in keys)


def hits_of(side: Side, events: Sequence[Event]) -> list[int]:
    """The hits of each request that is let in; all of them must be."""
    hits = []
    for event in events:
        answer = side.do(event)
        assert answer is not None
        if event[0] == "admit":
            hits.append(answer)
    return hits


def serial(*requests: Request) -> list[Event]:
    """Each request leaves before the next comes."""
    return [event for request in requests for event in (("admit", request), ("finish", 0))]


def random_events(dice: random.Random, *, late: bool = False):
    """A pool and a trace over it."""
    scope, parents = random_trace(dice)
    requests = requests_over(parents, scope.blocks, scope.tails)
    inside: list[bool] = []
    events: list[Event] = []
    for _ in range(60 if requests else 0):
        waiting = [place for place, computed in enumerate(inside) if not computed]
        if waiting and (len(inside) == scope.at_once or dice.random() < 0.5):
            events.append(("compute", waiting))
            inside = [True] * len(inside)
        elif inside and not waiting and (len(inside) == scope.at_once or dice.random() < 0.4):
            events.append(("finish", dice.randrange(len(inside))))
            inside.pop()
        elif len(inside) < scope.at_once:
            events.append(("admit", dice.choice(requests)))
            inside.append(not late)
    return scope, events


def fitting(events: Sequence[Event], sides: Sequence[Side]):
    """Lead some sides through those events that all can follow; yield the answers of each admission.

    What cannot be let in drops out of the trace, and so do the events that name it by its place.
    """
    for kind, what in events:
        places = what if kind == "compute" else [what]
        if kind != "admit" and any(place >= len(sides[0].inside) for place in places):
            continue
        answers = [side.do((kind, what)) for side in sides]
        assert len({answer is None for answer in answers}) == 1
        if kind == "admit" and None not in answers:
            yield what, answers


# The theorem.


@pytest.mark.parametrize("seed", range(60))
def test_a_host_tier_loses_no_hit_and_leaves_the_device_as_it_is(seed: int):
    scope, events = random_events(random.Random(seed))
    sides = [Side(scope.blocks, capacity, split=scope.policy.split) for capacity in (0, 1, 2, 5, 50)]
    for _, hits in fitting(events, sides):
        # No request loses, and a larger host never finds less than a smaller one.
        assert hits == sorted(hits)
        for side in sides[1:]:
            assert side.device() == sides[0].device()
    for side in sides[1:]:
        assert side.device() == sides[0].device()


@pytest.mark.parametrize("seed", range(20))
def test_no_device_has_a_gap(seed: int):
    """The lemma: what can be found stands behind what it builds upon."""
    scope, events = random_events(random.Random(f"gap {seed}"))
    side = Side(scope.blocks, scope.hosts, split=scope.policy.split)
    for request, _ in fitting(events, [side]):
        lookups = [side.manager.pool.lookup(key(h)) for h in request.path]
        assert None not in lookups
        snapshot = side.manager.snapshot().pool
        position = {block: place for place, block in enumerate(snapshot.free)}
        for h, parent in zip(request.path[1:], request.path, strict=False):
            for block in snapshot.copies[key(h)]:
                before = snapshot.copies[key(parent)]
                assert any(a not in position or position.get(block, -1) < position[a] for a in before)


def test_every_trace_over_a_small_forest():
    for parents in ((0, 1, 1), (0, 0, 1)):
        for split in (False, True):
            serially = search(parents, 3, 2, Policy(split=split), each=True)
            overlapping = search(parents, 3, 1, Policy(split=split), at_once=2, each=True)
            for found in (serially, overlapping):
                assert (found.loss, found.complete, found.same) == (None, True, True)


# The search and the reference implementation are the same policy.


def contents(side: Side) -> tuple[object, ...]:
    snapshot = side.manager.snapshot()
    return (
        snapshot.pool.free,
        [
            [int.from_bytes(k, "big") for k in snapshot.pool.keys.get(block, ())]
            for block in range(side.manager.pool.usable)
        ],
        [snapshot.tables[name] for name in side.inside],
        {int.from_bytes(k, "big"): blocks for k, blocks in snapshot.pool.copies.items()},
        side.host(),
    )


def contents_of(run: Run) -> tuple[object, ...]:
    copies: dict[int, list[int]] = {}
    for block in sorted(range(len(run.hashes)), key=lambda block: run.ages[block]):
        if run.hashes[block]:
            copies.setdefault(run.hashes[block], []).append(block)
    return (
        run.free,
        [[h] if h else [] for h in run.hashes],
        [table.blocks for table in run.inside],
        {h: tuple(blocks) for h, blocks in copies.items()},
        run.host,
    )


@pytest.mark.parametrize("kind", ["rule", "late", "blis", "past limit", "evictions"])
@pytest.mark.parametrize("seed", range(12))
def test_the_search_is_the_reference_implementation(seed: int, kind: str):
    dice = random.Random(f"{kind} {seed}")
    scope, events = random_events(dice, late=kind == "late")
    split = scope.policy.split
    if kind == "evictions":
        events = [event for each in events for event in (each, ("evict", dice.randint(1, scope.hashes)))]
    policy = Policy(split=split, late=kind == "late", blis=kind == "blis", past_limit=kind == "past limit")
    manager = {"blis": BlisManager, "past limit": PastLimitManager}.get(kind, MirrorManager)
    side = Side(scope.blocks, scope.hosts, split=split, late=policy.late, kind=manager)
    run = start(scope.blocks)
    for event in events:
        what = event[1]
        if event[0] == "admit":
            step = admit(run, what, scope.hosts, policy)
            if kind == "blis" and step is None:
                return  # What is reloaded before a refusal stays reloaded; the search does not model that.
            assert side.do(event) == (None if step is None else step[1])
            run = run if step is None else step[0]
        elif event[0] == "evict" or all(
            place < len(side.inside) for place in (what if event[0] == "compute" else [what])
        ):
            side.do(event)
            if event[0] == "compute":
                for place in what:
                    run = compute(run, place, scope.hosts)
            else:
                run = evict(run, what) if event[0] == "evict" else finish(run, what, policy)
        assert contents(side) == contents_of(run)


# The mutants of M9: hits are lost.


def lookup_of_both(side: Side, path: Sequence[int], limit: int) -> int:
    """A request as machine M allows it: a table of its hashes, and a lookup up to any limit."""
    manager, name = side.manager, side.count
    side.count += 1
    keys = [key(h) for h in path]
    assert manager.admit(name, len(keys))
    hits = manager.hit(name, keys, limit)
    assert manager.allocate(name, len(keys) - hits) is not None
    for position in range(hits, len(keys)):
        manager.register(name, position, keys[position], keys[position - 1] if position else None, BLOCK_TOKENS)
    if isinstance(manager, MirrorManager):
        manager.mirror(name)
    manager.finish(name)
    return hits


@pytest.mark.parametrize("split", [False, True])
def test_blis_loses_what_it_looks_for(split: bool):
    """Two blocks, requests [2, 0], [1], [2, 0]; P14 aside, so that the walk gets to the second hash."""

    def run(capacity: int, kind=MirrorManager) -> list[int]:
        side = Side(2, capacity, split=split, kind=kind)
        return [lookup_of_both(side, path, len(path)) for path in ([2, 9], [1], [2, 9])]

    assert run(0) == [0, 0, 1]
    assert run(3) == [0, 0, 2]
    # Block 2 stood at the head of the queue: the reload of 9 took it.
    assert run(3, BlisManager) == [0, 0, 0]


def test_blis_loses_hits_under_p14_too():
    """The same with three blocks and the dialect append: partly filled last blocks let the walk get that far."""
    events = serial(exact(2, 9), partial(1), partial(2, 9))
    assert hits_of(Side(3, split=False), events) == [0, 0, 1]
    assert hits_of(Side(3, 3, split=False), events) == [0, 0, 2]
    assert hits_of(Side(3, 3, split=False, kind=BlisManager), events) == [0, 0, 0]


@pytest.mark.parametrize("split", [False, True])
def test_a_walk_past_the_limit_loses_hits(split: bool):
    """Two blocks, one host block, requests [0], [2], [0], [2, 0]: holding the last block renews it in the queue."""
    events = serial(exact(7), exact(2), exact(7), exact(2, 9))
    assert hits_of(Side(2, split=split), events) == [0, 0, 0, 1]
    assert hits_of(Side(2, 1, split=split), events) == [0, 0, 0, 1]
    # The third request touched the one block of 7 and so took the other, which had 2.
    assert hits_of(Side(2, 1, split=split, kind=PastLimitManager), events) == [0, 0, 0, 0]


# Where the theorem ends.

BATCHES: list[Event] = [
    ("admit", partial(1)),
    ("admit", exact(1, 3)),
    ("compute", [0, 1]),
    ("finish", 1),
    ("finish", 0),
    ("admit", exact(1, 3)),
    ("admit", partial(1, 3)),
    ("compute", [0, 1]),
    ("finish", 1),
    ("admit", exact(2)),
    ("compute", [1]),
    ("finish", 1),
    ("finish", 0),
    ("admit", partial(1, 3)),
    ("compute", [0]),
    ("finish", 0),
    ("admit", partial(2)),
    ("admit", partial(2)),
]
"""Two requests are admitted before either is computed; four blocks, one host block, dialect append."""


def test_a_trace_loses_hits_when_several_requests_are_admitted_before_one_is_computed():
    plain = hits_of(Side(4, split=False, late=True), BATCHES)
    tiered = hits_of(Side(4, 1, split=False, late=True), BATCHES)
    assert plain == [0, 0, 1, 1, 0, 2, 1, 1]
    assert tiered == [0, 0, 1, 2, 0, 2, 0, 0]


def test_the_same_trace_loses_none_when_each_request_is_computed_at_once():
    events = [event for event in BATCHES if event[0] != "compute"]
    plain, tiered = (hits_of(Side(4, capacity, split=False), events) for capacity in (0, 1))
    assert all(one <= other for one, other in zip(plain, tiered, strict=True))


def test_a_request_loses_hits_when_a_hash_is_evicted():
    """An eviction tears a hole into a prefix (P11): then the devices differ. Four blocks, two host blocks, split."""
    events: list[Event] = [
        *serial(exact(1, 2)),
        ("admit", exact(1, 3)),
        ("evict", 1),
        ("finish", 0),
        *serial(partial(1, 3)),
        ("admit", exact(1, 2)),
        ("admit", partial(1, 2)),
        ("finish", 1),
        ("admit", partial(1, 3)),
    ]
    plain, tiered = hits_of(Side(4), events), hits_of(Side(4, 2), events)
    assert tiered[-1] < plain[-1]

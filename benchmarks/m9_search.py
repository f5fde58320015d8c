"""M9: does a host tier ever lower the hits of a trace? A search over small pools, for requests without end.

Usage: python benchmarks/m9_search.py [all | small | mutants | random | trace FILE ...]

A run with a host tier and one without are led through the same events, side by side. ``small`` visits every pair of
states that any number of requests over a few hashes can lead to, up to the names of blocks, and so answers for traces
of any length; ``mutants`` does the same for policies that break a condition of M9 and prints the shortest trace that
loses hits; ``random`` tries larger pools; ``trace`` follows real requests on the reference implementation.

Hashes are chained (P13): they form a forest, and the full blocks of a request are a path from a root. A hash is a
number from 1; 0 stands for none.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple


class Request(NamedTuple):
    """What a request asks for."""

    path: tuple[int, ...]
    """The hashes of its full blocks, first to last."""
    limit: int
    """The most blocks that its lookup may return."""
    need: int
    """The blocks of its table: one more than there are hashes when its last block is partly filled."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of machine M, and what mutants do instead."""

    split: bool = True
    """The dialect of P10."""
    late: bool = False
    """Registering and mirroring are an event of their own: several requests are admitted before any is computed."""
    blis: bool = False
    """Reload first, to the tail and unheld, then claim."""
    past_limit: bool = False
    """The walk holds what is on the device behind P14's limit too, and lets it go again."""
    first_first: bool = False
    """A request's blocks are freed first to last."""


class Table(NamedTuple):
    """A request inside."""

    blocks: tuple[int, ...]
    waiting: tuple[int, ...] = ()
    """The path of a request that is not computed yet."""
    hits: int = 0
    """How many of its blocks were hits; kept only while it waits."""


class Run(NamedTuple):
    """The state of both tiers."""

    free: tuple[int, ...]
    """The free queue, the block to be taken next first."""
    hashes: tuple[int, ...]
    """The hash that each block carries, or 0."""
    ages: tuple[int, ...]
    """When each block was registered: of several copies of a hash, lookups find the one with the lowest number."""
    inside: tuple[Table, ...]
    """The requests inside, in order of admission."""
    host: tuple[int, ...]
    """The hashes on the host, the one to be evicted next first."""


def start(blocks: int) -> Run:
    """Return an empty device of some blocks with an empty host."""
    return Run(tuple(range(blocks)), (0,) * blocks, (0,) * blocks, (), ())


def first_copies(hashes: list[int], ages: list[int]) -> dict[int, int]:
    """Return the block that a lookup finds for each hash (P5)."""
    first: dict[int, int] = {}
    for block, h in enumerate(hashes):
        if h and (h not in first or ages[block] < ages[first[h]]):
            first[h] = block
    return first


def admit(run: Run, request: Request, capacity: int, policy: Policy) -> tuple[Run, int] | None:
    """Let a request in: hold, reload, let go, allocate, compute; return the hits. ``None`` if it does not fit now."""
    path, limit, need = request
    queue, hashes, ages, host = list(run.free), list(run.hashes), list(run.ages), list(run.host)
    now = max(ages, default=0) + 1
    if policy.blis:
        now = _reload_first(path[:limit], queue, hashes, ages, host, now)
        host_for_walk: list[int] = []
    else:
        host_for_walk = host
    unheld = set(queue)
    first = first_copies(hashes, ages)
    places: list[int | None] = []
    for h in path if policy.past_limit else path[:limit]:
        if h not in first and h not in host_for_walk:
            break
        places.append(first.get(h))
    # Where the walk ends: at the limit, or at a reload without room once all that was found is held (M6).
    room = len(queue) - len(unheld.intersection(places))
    end = 0
    for place in places[:limit]:
        if place is None:
            if room == 0:
                break
            room -= 1
        end += 1
    held = [place for place in places[:end] if place is not None]
    if need - len(held) + len(unheld.intersection(held)) > len(queue):
        return None
    behind = [place for place in places[end:] if place in unheld]
    queue = [block for block in queue if block not in places]
    table: list[int] = []
    for h, place in zip(path, places[:end], strict=False):
        block = place
        if block is None:
            block = queue.pop(0)
            hashes[block], ages[block], now = h, now, now + 1
            host.remove(h)
            host.append(h)
        table.append(block)
    queue += [block for block in reversed(behind) if block is not None]
    fresh, queue = queue[: need - end], queue[need - end :]
    for block in fresh:
        hashes[block] = 0
    entered = Table((*table, *fresh), path, end)
    after = Run(tuple(queue), tuple(hashes), tuple(ages), (*run.inside, entered), tuple(host))
    return (after if policy.late else compute(after, len(run.inside), capacity)), end


def _reload_first(
    path: tuple[int, ...], queue: list[int], hashes: list[int], ages: list[int], host: list[int], now: int
) -> int:
    """Do what BLIS did: bring back what the host has, to the tail, before anything is held."""
    bound = len(queue)
    for h in path:
        if h in hashes:
            continue
        if h not in host or bound == 0:
            break
        block = queue.pop(0)
        queue.append(block)
        hashes[block], ages[block], now, bound = h, now, now + 1, bound - 1
        host.remove(h)
        host.append(h)
    return now


def compute(run: Run, place: int, capacity: int) -> Run:
    """Register the full blocks of a request that waits, and mirror all of them (M2, M3)."""
    blocks, path, hits = run.inside[place]
    hashes, ages, host = list(run.hashes), list(run.ages), list(run.host)
    now = max(ages) + 1
    for position in range(hits, len(path)):
        hashes[blocks[position]], ages[blocks[position]], now = path[position], now, now + 1
    for h in path if capacity else ():
        if h in host:
            host.remove(h)
        elif len(host) == capacity:
            del host[0]
        host.append(h)
    inside = (*run.inside[:place], Table(blocks), *run.inside[place + 1 :])
    return Run(run.free, tuple(hashes), tuple(ages), inside, tuple(host))


def finish(run: Run, place: int, policy: Policy) -> Run:
    """Let a request leave: its blocks are freed, last first (P9, P10)."""
    blocks = run.inside[place].blocks
    inside = run.inside[:place] + run.inside[place + 1 :]
    held = set(chain.from_iterable(table.blocks for table in inside))
    freed = [block for block in (blocks if policy.first_first else blocks[::-1]) if block not in held]
    head = [block for block in freed if policy.split and not run.hashes[block]]
    tail = [block for block in freed if not policy.split or run.hashes[block]]
    return run._replace(free=(*head, *run.free, *tail), inside=inside)


def evict(run: Run, h: int) -> Run:
    """Take a hash off all blocks that carry it (P11)."""
    return run._replace(hashes=tuple(0 if carried == h else carried for carried in run.hashes))


def renamed(run: Run) -> Run:
    """Return the run with its blocks numbered in order of the queue and the tables, and ages as small as can be."""
    order = list(dict.fromkeys(chain(run.free, *(table.blocks for table in run.inside))))
    number = dict(zip(order, range(len(order)), strict=True))
    hashes = tuple([run.hashes[block] for block in order])
    ages = [0] * len(order)
    if len(set(hashes) - {0}) + hashes.count(0) < len(hashes):
        seen: dict[int, int] = {}
        for block in sorted(order, key=lambda block: run.ages[block]):
            h = run.hashes[block]
            ages[number[block]] = seen[h] = seen.get(h, -1) + 1 if h else 0
    return Run(
        tuple([number[block] for block in run.free]),
        hashes,
        tuple(ages),
        tuple([table._replace(blocks=tuple([number[block] for block in table.blocks])) for table in run.inside]),
        run.host,
    )


# What is searched.

Tail = Literal["exact", "partial", "none"]
"""How prompts end: with a full block, which P14 keeps from being hit; with a partly filled one; or, beside P14, with
a full block that may be hit."""


def forests(nodes: int) -> list[tuple[int, ...]]:
    """Return every forest of so many hashes up to renaming: the parent of each hash, 0 for a root."""
    found: dict[Any, tuple[int, ...]] = {}

    def shape(parents: tuple[int, ...], root: int) -> Any:
        return tuple(sorted(shape(parents, h + 1) for h, parent in enumerate(parents) if parent == root))

    for parents in product(*(range(h + 1) for h in range(nodes))):
        found.setdefault(shape(parents, 0), parents)
    return list(found.values())


def requests_over(parents: tuple[int, ...], blocks: int, tails: tuple[Tail, ...]) -> list[Request]:
    """Return every request over a forest that fits so many blocks."""
    requests = [Request((), 0, 1)] if "partial" in tails else []
    for h in range(1, len(parents) + 1):
        path: tuple[int, ...] = ()
        while h:
            path, h = (h, *path), parents[h - 1]
        full = len(path)
        if "exact" in tails:
            requests.append(Request(path, full - 1, full))
        if "partial" in tails:
            requests.append(Request(path, full, full + 1))
        if "none" in tails:
            requests.append(Request(path, full, full))
    return [request for request in requests if request.need <= blocks]


Event = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search over one pool and one forest showed."""

    states: int
    complete: bool
    """Whether every reachable pair of states was visited."""
    loss: list[Event] | None = None
    """The shortest trace after which the run with a host has fewer hits, if there is any."""
    same: bool = True
    """Whether both devices were equal, as orders, in every pair that was visited."""


def search(
    parents: tuple[int, ...],
    blocks: int,
    capacity: int,
    policy: Policy,
    *,
    tails: tuple[Tail, ...] = ("exact", "partial"),
    at_once: int = 1,
    evictions: bool = False,
    each: bool = False,
    most_states: int = 1_000_000,
) -> Found:
    """Lead a run without a host tier and one with it through all traces over a forest, breadth first.

    A pair of states is visited again when it is reached with more hits lost. With nothing lost anywhere that ends:
    then no trace of any length loses hits.

    Args:
        parents: the forest of hashes.
        blocks: blocks of the device.
        capacity: blocks of the host.
        policy: the rules.
        tails: how prompts may end.
        at_once: the most requests inside; with 1 each finishes before the next comes.
        evictions: whether a hash may be taken off the device at any moment (P11).
        each: ask that no single request has fewer hits, not only that the trace has not.
        most_states: give up behind so many pairs.
    """
    requests = requests_over(parents, blocks, tails)
    root = (start(blocks), start(blocks))
    lost_most = {root: 0}
    came_from: dict[tuple[tuple[Run, Run], int], tuple[tuple[tuple[Run, Run], int], Event] | None] = {(root, 0): None}
    wave = [(root, 0)]
    complete = same = True
    while wave:
        following = []
        for node in wave:
            (plain, tiered), lost = node
            if lost_most[plain, tiered] > lost:
                continue
            for event in _events(plain, requests, at_once, len(parents) if evictions else 0):
                step = _step(plain, tiered, event, capacity, policy, serial=at_once == 1 and not policy.late)
                if step is None:
                    continue
                pair, more = step
                loss = more if each else lost + more
                if loss > 0:
                    trace = [event]
                    before = came_from[node]
                    while before is not None:
                        trace.append(before[1])
                        before = came_from[before[0]]
                    return Found(len(lost_most), False, trace[::-1], same)
                loss = 0 if each else loss
                if loss <= lost_most.get(pair, loss - 1):
                    continue
                if pair not in lost_most and len(lost_most) >= most_states:
                    complete = False
                    continue
                same = same and pair[0][:-1] == pair[1][:-1]
                lost_most[pair] = loss
                came_from[pair, loss] = (node, event)
                following.append((pair, loss))
        wave = following
    return Found(len(lost_most), complete, None, same)


def _events(run: Run, requests: list[Request], at_once: int, evictable: int) -> Iterator[Event]:
    """Return what may happen next."""
    if waiting := [place for place, table in enumerate(run.inside) if table.waiting]:
        yield "compute", waiting
    for place, table in enumerate(run.inside):
        if not table.waiting:
            yield "finish", place
    if len(run.inside) < at_once:
        for request in requests:
            yield ("admit", request)
    for h in range(1, evictable + 1):
        yield ("evict", h)


def _step(
    plain: Run, tiered: Run, event: Event, capacity: int, policy: Policy, *, serial: bool
) -> tuple[tuple[Run, Run], int] | None:
    """Do the same in both runs; return them and the hits lost. ``None`` if one of them has no room."""
    kind, what = event
    lost = 0
    if kind == "admit":
        one, other = admit(plain, what, 0, replace(policy, past_limit=False)), admit(tiered, what, capacity, policy)
        if one is None or other is None:
            return None
        plain, tiered, lost = one[0], other[0], one[1] - other[1]
        if serial:
            plain, tiered = finish(plain, 0, policy), finish(tiered, 0, policy)
    elif kind == "finish":
        plain, tiered = finish(plain, what, policy), finish(tiered, what, policy)
    elif kind == "compute":
        for place in what:
            plain, tiered = compute(plain, place, 0), compute(tiered, place, capacity)
    else:
        plain, tiered = evict(plain, what), evict(tiered, what)
    return (renamed(plain), renamed(tiered)), lost


# Reports.


@dataclass(frozen=True, slots=True)
class Scope:
    """Pools and requests to search, the smaller ones first."""

    name: str
    policy: Policy
    hashes: int
    blocks: int
    hosts: int
    tails: tuple[Tail, ...] = ("exact", "partial")
    at_once: int = 1
    evictions: bool = False
    each: bool = True
    least: int = 1
    """The smallest device."""


SMALL = (
    Scope("serial", Policy(), hashes=4, blocks=4, hosts=4),
    Scope("two at once", Policy(), hashes=3, blocks=4, hosts=3, at_once=2),
    Scope("three at once", Policy(), hashes=2, blocks=4, hosts=2, at_once=3),
    Scope("batches, no prompt ends with a full block", Policy(late=True), 4, 5, 2, ("partial",), at_once=3),
)
"""Where nothing may be lost, not even by a single request."""

MUTANTS = (
    Scope("blis, P14 aside", Policy(blis=True), 3, 2, 2, ("none",), each=False),
    Scope("blis, with P14", Policy(blis=True), 3, 4, 2, each=False),
    Scope("a walk past P14's limit", Policy(past_limit=True), 3, 3, 2, ("exact",), each=False),
    Scope("batches: one request loses", Policy(late=True), 3, 4, 1, at_once=2),
    Scope("batches: the trace loses", Policy(late=True), 3, 4, 1, at_once=2, each=False),
    Scope("evictions: one request loses", Policy(), 3, 4, 2, at_once=2, evictions=True, least=4),
    Scope("evictions: the trace loses", Policy(), 3, 4, 1, at_once=2, evictions=True, each=False, least=4),
)
"""Where something must be lost."""


def settings(scope: Scope) -> Iterator[tuple[tuple[int, ...], int, int, Policy]]:
    """Return the forests, pools, hosts and dialects of a scope. Fewer hashes are part of more."""
    for blocks in range(scope.least, scope.blocks + 1):
        for capacity in range(1, scope.hosts + 1):
            for split in (False, True):
                for parents in forests(scope.hashes):
                    yield parents, blocks, capacity, replace(scope.policy, split=split)


def search_in(scope: Scope, setting: tuple[tuple[int, ...], int, int, Policy]) -> Found:
    """Search one setting of a scope."""
    return search(*setting, tails=scope.tails, at_once=scope.at_once, evictions=scope.evictions, each=scope.each)


def report_small() -> bool:
    """Search where nothing may be lost, and print what was covered; tell whether nothing was."""
    print("Every trace of any length, over every forest of so many hashes, both dialects; each request compared:")
    fine = True
    for scope in SMALL:
        began, states, complete, same, searched = perf_counter(), 0, True, True, 0
        for setting in settings(scope):
            found = search_in(scope, setting)
            searched, states = searched + 1, states + found.states
            complete, same = complete and found.complete, same and found.same
            if found.loss is not None:
                fine = False
                print(f"  LOST: {scope.name}, {setting}: {show(found.loss)}")
                break
        print(
            f"  {scope.name}: {scope.hashes} hashes, device 1..{scope.blocks}, host 1..{scope.hosts}: "
            f"{searched} searches, {states:,} pairs of states, {'all visited' if complete else 'NOT ALL VISITED'}; "
            f"the devices {'never differ' if same else 'differ at times'}; {perf_counter() - began:.0f} s",
            flush=True,
        )
    return fine


def report_mutants() -> bool:
    """Search where something must be lost, and print the shortest trace; tell whether all lose."""
    print("Mutants, and the shortest trace that loses hits (hashes of full blocks, + for a partly filled last one):")
    losing = 0
    for scope in MUTANTS:
        losses = [
            (setting, loss) for setting in settings(scope) if (loss := search_in(scope, setting).loss) is not None
        ]
        if not losses:
            print(f"  {scope.name}: NOTHING IS LOST")
            continue
        losing += 1
        (parents, blocks, capacity, policy), loss = min(
            losses, key=lambda found: (sum(kind == "admit" for kind, _ in found[1]), len(found[1]), found[0][1:3])
        )
        dialect = "split" if policy.split else "append"
        print(
            f"  {scope.name}: device {blocks}, host {capacity}, {dialect}, parents {parents}:\n    {show(loss)}",
            flush=True,
        )
    return losing == len(MUTANTS)


def show(trace: list[Event]) -> str:
    """Return a trace in one line."""
    words = []
    for kind, what in trace:
        if kind == "admit":
            words.append("[" + " ".join(map(str, what.path)) + ("+" if what.need > len(what.path) else "") + "]")
        else:
            words.append("compute" if kind == "compute" else f"{kind} {what}")
    return ", ".join(words)


def random_trace(dice: random.Random, *, most_blocks: int = 12, most_hashes: int = 16) -> tuple[Scope, tuple[int, ...]]:
    """Return a pool and a forest of any shape."""
    hashes = dice.randint(2, most_hashes)
    straight = dice.random()
    parents = tuple(h if h and dice.random() < straight else dice.randint(0, h) for h in range(hashes))
    tails: tuple[Tail, ...] = dice.choice([("exact",), ("partial",), ("exact", "partial")])
    policy = Policy(split=dice.random() < 0.5)
    blocks, hosts = dice.randint(2, most_blocks), dice.choice([1, 2, 3, 4, 6, 10, 20])
    return Scope("random", policy, hashes, blocks, hosts, tails, at_once=dice.randint(1, 4)), parents


def report_random(seconds: float, seed: int) -> bool:
    """Try random traces for some time; tell whether none lost a hit, and no device differed."""
    began, traces, events, gained = perf_counter(), 0, 0, 0
    while perf_counter() - began < seconds:
        dice = random.Random(f"{seed} {traces}")
        traces += 1
        scope, parents = random_trace(dice)
        requests = requests_over(parents, scope.blocks, scope.tails)
        plain = tiered = start(scope.blocks)
        for _ in range(80 if requests else 0):
            event: Event = ("admit", dice.choice(requests))
            if plain.inside and (len(plain.inside) == scope.at_once or dice.random() < 0.4):
                event = ("finish", dice.randrange(len(plain.inside)))
            step = _step(plain, tiered, event, scope.hosts, scope.policy, serial=False)
            if step is None:
                continue
            (plain, tiered), lost = step
            events, gained = events + 1, gained - lost
            if lost > 0 or plain[:-1] != tiered[:-1]:
                print(f"  LOST: seed {seed}, trace {traces - 1}")
                return False
    print(
        f"Random traces, device to 12, host to 20, 16 hashes, four at once (seed {seed}): {traces:,} traces, "
        f"{events:,} events, {gained:,} hits gained, none lost by any request; the devices never differ"
    )
    return True


def report_trace(path: str, capacities: list[int], hosts: list[int], limit: int | None) -> bool:
    """Follow real requests on the reference implementation, with and without a host tier, side by side."""
    from kvproof.workload.requests import read_workload
    from kvproof.workload.target import RefimplHostTarget, RefimplTarget

    work = read_workload(path, limit=limit)
    fine = True
    for blocks in capacities:
        plain, tiered = RefimplTarget(blocks), [RefimplHostTarget(blocks, host) for host in hosts]
        hits, compared, different = [0] * (1 + len(tiered)), 0, 0
        for request in work.requests:
            answers = [target.start(request) for target in (plain, *tiered)]
            for mirroring in tiered:
                mirroring.mirror(request)
            if answers[0] is None or None in answers:
                fine = fine and all(answer is None for answer in answers)
                continue
            found = [0 if answer is None else answer.hits for answer in answers]
            # More host never finds less, request by request, and the tables are the same blocks.
            fine = fine and found == sorted(found)
            different += any(answer is None or answer.table != answers[0].table for answer in answers)
            hits = [total + more for total, more in zip(hits, found, strict=True)]
            for target in (plain, *tiered):
                target.finish(request)
            if request.index % max(1, len(work.requests) // 20) == 0:
                compared += 1
                different += any(target.view() != plain.view() for target in tiered)
        fine = fine and not different
        print(
            f"{Path(path).name}, {len(work.requests):,} requests, device {blocks:,}: hits "
            + ", ".join(f"{total:,} with host {host:,}" for host, total in zip((0, *hosts), hits, strict=True))
            + f"; no request loses: {fine}; tables that differ: {different} (whole devices compared: {compared} times)",
            flush=True,
        )
    return fine


def main() -> None:
    """Search and print; exit status 1 when something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["all", "small", "mutants", "random", "trace"], nargs="?", default="all")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to try random traces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="only the first requests of a file")
    parser.add_argument("--blocks", default="1000,10000", help="device capacities for a file")
    parser.add_argument("--host-blocks", default="1000,10000,50000", help="host capacities for a file, ascending")
    options = parser.parse_args()
    fine = True
    if options.what in ("all", "small"):
        fine = report_small() and fine
    if options.what in ("all", "mutants"):
        fine = report_mutants() and fine
    if options.what in ("all", "random"):
        fine = report_random(options.seconds, options.seed) and fine
    for path in options.files:
        capacities, hosts = ([int(part) for part in text.split(",")] for text in (options.blocks, options.host_blocks))
        fine = report_trace(path, capacities, hosts, options.limit) and fine
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()

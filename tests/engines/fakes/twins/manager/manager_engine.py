"""vLLM's level ``manager`` over the reference implementation of hybrid groups, wrong in one way on demand.

Right, it is the clean twin of the level: the same cases, the same oracles, and nothing is found. Drafts, states,
chunks and embeddings are not known to it: such setups are refused.
"""

import math
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from level import SKIPPED, Level, Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/worker"))

from prompts import VOCABULARY, tokens_of

from kvproof.refimpl.events import AllBlocksCleared, BlockStored
from kvproof.refimpl.hybrid.cache import HybridCache
from kvproof.refimpl.hybrid.planner import Group
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.blocks import blocks_for
from kvproof.refimpl.pool.keys import ExtraKeys, MultimodalItem, chain_keys

__all__ = ["LEVELS", "Refused", "prepare", "version"]

_NAMES = (None, "a", "b")
_LENGTHS = {"a": 2, "b": 3}
"""Tokens of an item, by its name."""


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


@dataclass(eq=False)
class Request:
    """A request: what it asked for, and how far it is."""

    r: str
    tokens: list[int]
    """With what was sampled, though nobody was told yet."""
    known: int
    """How many of them the manager knows."""
    most: int
    """How many tokens it may get to, its prompt's included."""
    extras: ExtraKeys
    status: str = "waiting"
    scheduled: int = 0
    """Up to where forward passes were scheduled."""
    epoch: int = 0
    """How often it lost everything."""
    preempted: int = 0
    load: tuple[int, int] = (0, 0)

    @property
    def is_inside(self) -> bool:
        """Whether it has tables: also one that was loaded, and waits."""
        return self.status in ("running", "loading", "dead") or (self.status == "waiting" and self.scheduled > 0)


class Faulty(HybridCache):
    """A cache that is wrong in the way that ``fault`` names."""

    __slots__ = ("fault",)

    def register(self, request, chain, tokens):
        if self.fault == "filed too late":
            tokens = max(0, tokens - self.hash_block)
        if self.fault == "filed too early":
            room = min(len(t) * g.block for t, g in zip(self.tables(request), self.groups, strict=True))
            tokens = min(room, len(chain) * self.hash_block)
        super().register(request, chain, tokens)

    def hit(self, request, chain, limit_tokens):
        return super().hit(request, chain, limit_tokens + (self.fault == "hits the whole prompt"))

    def drop_outside(self, request):
        return super().drop_outside(request)

    def finish(self, request):
        tables = self.tables(request)
        super().finish(request)
        if self.fault == "holds the last block" and len(tables[0]) > 2 and tables[0][-1]:
            self.pool.touch([tables[0][-1]])


class Manager(Level):
    """Requests over a hybrid cache. ``setup`` is that of vLLM's level, and ``fault``."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        unknown = [
            name for name in ("drafts", "eagle", "ahead", "embeds", "match_unit", "retention") if setup.get(name)
        ]
        if unknown or any(group["kind"] not in ("full", "window") for group in setup["groups"]):
            raise Refused(f"the twin has no {unknown or 'such groups'}")
        self.setup = setup
        self.caching, self.events = setup.get("caching", True), setup.get("events", False)
        groups = [Group(group["block"], group["kind"], group.get("window", 0)) for group in setup["groups"]]
        least = sum(blocks_for(setup["max_len"], group.block) for group in groups)
        self.pool = BlockPool(1 + least + setup.get("spare", 0), caching=self.caching, events=bool(self.events))
        self.cache = Faulty(self.pool, math.gcd(*(group.block for group in groups)), groups)
        self.cache.fault = setup.get("fault", "")
        self.requests: list[Request] = []
        self.history: list[list[int]] = []
        self.steps: deque[list[tuple[Request, int, int, list[int]]]] = deque()
        """Of each step that is not processed: a request, its epoch, up to where it is computed, what was sampled."""
        self.open: list[Request] | None = None
        self.numbers: dict[bytes, int] = {}
        self.tokens_of_key: dict[bytes, list[int]] = {}
        self.counts = dict.fromkeys(
            ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits"), 0
        )
        self.world = {
            "groups": setup["groups"],
            "tiers": {"device": {"blocks": self.pool.num_blocks, "null": 0}},
            "hash_block": self.cache.hash_block,
            "exact": True,
            "notes": {
                "scheduler_block": self.cache.boundary,
                "dialect": {"keep": "all" if self.caching else "none"},
            },
        }

    def do(self, op, args):
        if op != "run":
            self._close()
        result = super().do(op, args)
        if self.events and result is not SKIPPED:
            for event in self.pool.take_events():
                self._tell_event(event)
            self.tell("boundary", "device")
        return result

    def state(self):
        shot = self.pool.snapshot()
        inside = [x for x in self.requests if x.is_inside]
        entries: dict[bytes, list[int]] = {}
        for block, keys in shot.keys.items():
            for key in keys:
                entries.setdefault(key, []).append(block)
        return {
            "pools": {
                "device": {
                    "ref": list(shot.ref_cnt),
                    "free": list(shot.free),
                    "num_free": shot.num_free,
                    "cached": [[*self._named(key), blocks] for key, blocks in entries.items()],
                    "hashes": [[block, [self._named(key) for key in keys]] for block, keys in shot.keys.items()],
                }
            },
            "tables": {x.r: [list(table) for table in self.cache.tables(x.r)] for x in inside},
            "holds": {},
            "waiting": len(self._in("waiting")),
            "running": len(self._in("running")),
            "pending": len(self._in("loading", "dead")),
        }

    # ---------------------------------------------------------------------------------------------- requests

    def op_add(self, args):
        tokens = tokens_of(args, self.history, self.setup["max_len"] - 1)
        items = _items(args.get("items", ()), len(tokens))
        adapter, salt = (_NAMES[args.get(what, 0) % 3] for what in ("adapter", "salt"))
        extras = ExtraKeys(adapter, salt, tuple(MultimodalItem(name, at) for at, _, name in items))
        r = f"r{len(self.history)}"
        most = min(len(tokens) + 1 + args.get("most", 0), self.setup["max_len"])
        x = Request(r, list(tokens), len(tokens), most, extras)
        self.requests.append(x)
        self.history.append(x.tokens)
        self.tell("request", r, {"tokens": list(tokens), "adapter": adapter, "salt": salt, "items": items})
        self._tell_keys(x)
        return r

    def op_finish(self, args):
        x = self._pick(args, "waiting", "running", "loading")
        if x is None:
            return SKIPPED
        self._end(x, "aborted")
        return x.r

    def op_preempt(self, args):
        x = self._pick(args, "running")
        if x is None:
            return SKIPPED
        while not args.get("drop") and any(each[0] is x for step in self.steps for each in step):
            self._process()
        if x.status != "running":
            return None
        self._preempt(x)
        return x.r

    def _preempt(self, x):
        self.cache.preempt(x.r)
        x.status, x.scheduled, x.epoch, x.preempted = "waiting", 0, x.epoch + 1, x.preempted + 1
        del x.tokens[x.known :]
        self.tell("preempted", x.r)

    def _end(self, x, how):
        self.tell("end", x.r, how)
        if x.status == "loading":
            x.status = "dead"
            return
        if x.is_inside:
            self.cache.finish(x.r)
        x.status = "over"

    # -------------------------------------------------------------------------------------------- scheduling

    def op_run(self, args):
        x = self._pick(args, "waiting", "running")
        if x is None or (self.open and x in self.open):
            return SKIPPED
        result = self._run(x, args)
        if not args.get("more"):
            self._close()
        return result

    def _run(self, x, args):
        if self.open is None:
            while len(self.steps) >= self.setup.get("flight", 1):
                self._process()
            self.open = []
            self.steps.append([])
        if x.status == "over":
            return 0
        budget = self.setup["budget"] - sum(end - start for start, end in self._spans)
        budget = min(budget, args.get("n") or budget)
        if budget <= 0:
            return 0
        return self._continue(x, budget, args) if x.status == "running" else self._admit(x, budget, args)

    @property
    def _spans(self):
        return [each[4] for each in self.steps[-1]]

    def _close(self):
        self.open = None
        while self.steps and (not self.steps[-1] or self.setup.get("flight", 1) == 1):
            if self.steps[-1]:
                self._process()
            else:
                self.steps.pop()

    def _continue(self, x, budget, args):
        there = len(x.tokens) if self.setup.get("asynchronous") else x.known
        new = min(there - x.scheduled, budget)
        if new <= 0 or x.scheduled >= x.most - 1:
            return 0
        had = [len(table) for table in self.cache.tables(x.r)]
        if not self._allocate(x, x.scheduled + new):
            return False
        for g, table in enumerate(self.cache.tables(x.r)):
            if len(table) > had[g]:
                self.tell("table", x.r, g, had[g], list(table[had[g] :]))
        self._forward(x, new, args)
        return new

    def _admit(self, x, budget, args):
        local = external = 0
        begins = x.scheduled == 0
        if begins:
            self.cache.admit(x.r, self.setup["max_len"])
            local = self.cache.hit(x.r, self._chain(x), x.known - 1)
            self.tell("lookup", x.r, local, 0, x.known - 1)
            self.tell("found", x.r, [list(table) for table in self.cache.tables(x.r)], local)
            external = self._outside(x, local, args)
        later = bool(external and args.get("later"))
        done = x.scheduled or local + external
        new = 0 if later else min(x.known - done, budget)
        if not self._allocate(x, done + new, loaded=external and done):
            if begins:
                self.cache.preempt(x.r)
            return False
        if begins:
            self._count(x, local)
        if later:
            x.status, x.load = "loading", (local, external)
            return 0
        x.status, x.scheduled = "running", done
        if external:  # What came settles first, and the rest is taken, for which there is room.
            self.cache.settle(x.r, [done] * len(self.cache.groups))
            assert self.cache.allocate(x.r, done + new)
        self._tell_tables(x)
        if external:
            self._tell_loaded(x, local, external)
        self._forward(x, new, args)
        return new

    def _outside(self, x, local, args):
        """Tokens that come from elsewhere: whole blocks of all groups, and never all that there are."""
        unit = self.cache.boundary
        wanted = args.get("outside", 0) * unit
        if wanted and args.get("later", 0) > 1:
            wanted = x.known
        return min(wanted, x.known - 1 - local) // unit * unit

    def _allocate(self, x, tokens, loaded=0):
        """Grow the tables, where all of the prompt fits if that is asked for."""
        wanted = max(tokens, x.known) if self.setup.get("fit") and x.status == "waiting" else tokens
        tables = self.cache.tables(x.r)
        pairs = list(zip(tables, self.cache.groups, strict=True))
        needed = sum(max(0, blocks_for(wanted, group.block) - len(table)) for table, group in pairs)
        if loaded:  # In front of what a window needs nothing is taken.
            needed -= sum(max(0, group.first_needed(loaded) // group.block - len(table)) for table, group in pairs)
        if needed <= self.pool.num_free and self.cache.allocate(x.r, loaded or tokens, loaded=loaded):
            return True
        self.tell("refused", x.r, wanted, [list(table) for table in tables], list(self.pool.snapshot().free), 0)
        return False

    def _forward(self, x, new, args):
        start, end = x.scheduled, x.scheduled + new
        if not self.steps[-1]:
            self.tell("batch", "begin")
        self.tell("compute", x.r, start, x.tokens[start:end])
        sampled = [(args.get("token", 0) + end) % VOCABULARY] if end == len(x.tokens) and end < x.most else []
        x.scheduled = end
        x.tokens += sampled
        self.steps[-1].append((x, x.epoch, end, sampled, (start, end)))
        self.open.append(x)

    def op_process(self, _args):
        if not self.steps:
            return SKIPPED
        self._process()
        return None

    def _process(self):
        self.tell("batch", "end")
        for x, epoch, end, sampled, _ in self.steps.popleft():
            if x.status == "over" or x.epoch != epoch:
                continue
            if sampled:
                x.known += len(sampled)
                self.tell("append", x.r, sampled)
                self._tell_keys(x)
            self.cache.register(x.r, self._chain(x), end)
            self.cache.drop_outside(x.r)
            self.tell("processed", x.r, end)
            if x.known >= x.most:
                self._end(x, "finished")

    # ------------------------------------------------------------------------------------------------- loads

    def op_load_done(self, args):
        x = self._pick(args, "loading", "dead")
        if x is None:
            return SKIPPED
        self._load_done(x)
        return x.r

    def _load_done(self, x):
        self.cache.settle(x.r, [sum(x.load)] * len(self.cache.groups))
        self._tell_tables(x)
        self._tell_loaded(x, *x.load)
        if x.status == "dead":
            x.status = "over"
            self.cache.finish(x.r)
        else:
            x.status, x.scheduled = "waiting", sum(x.load)
            self.cache.register(x.r, self._chain(x), x.scheduled)

    def _tell_loaded(self, x, local, external):
        """Tell where the KV of the tokens behind the local ones was put."""
        end = local + external
        for g, (group, table) in enumerate(zip(self.cache.groups, self.cache.tables(x.r), strict=True)):
            places = [
                ["device", table[at], at * group.block, group.block]
                for at in range(local // group.block, end // group.block)
                if table[at]
            ]
            self.tell("computed_outside", x.r, g, places)

    # --------------------------------------------------------------------------------------------- the cache

    def op_evict(self, args):
        blocks = {1 + block % (self.pool.num_blocks - 1) for block in args["blocks"]}
        for block in sorted(blocks):
            self.pool.evict(block)
        return sorted(blocks)

    def op_reset(self, _args):
        return self.pool.reset()

    def op_drain(self, _args):
        """Complete everything: first come, first served; short of blocks, the last one is preempted."""
        for x in self._in("loading", "dead"):
            self._load_done(x)
        rounds = 0
        while self._in("waiting", "running") and rounds < 100:
            rounds += 1
            short = False
            for x in self._in("running"):
                while x.status == "running" and self._step(x) is False:
                    short = True
                    self._make_room()
            for x in [] if short else self._in("waiting"):
                if self._step(x) is False:
                    if not self._in("running"):
                        self._give_back(x)
                    break
            while self.steps:
                self._process()
        return {"left": len(self._in("waiting", "running")), "pending": 0, "steps": rounds}

    def _step(self, x):
        result = self._run(x, {})
        self._close()
        return result

    def _make_room(self):
        """The last request that runs gives its blocks back; before the only one, one that waits with what it has."""
        while self.steps:
            self._process()
        running, idle = self._in("running"), [x for x in self._in("waiting") if x.is_inside]
        for x in (idle if len(running) == 1 else running)[-1:] or running:
            self._preempt(x)

    def _give_back(self, first):
        """Who waits with what was loaded for it gives that back, so that the first one can go on."""
        for x in self._in("waiting"):
            if x.is_inside and x is not first:
                self._preempt(x)

    # ------------------------------------------------------------------------------------------- telling

    def _tell_tables(self, x):
        for g, table in enumerate(self.cache.tables(x.r)):
            self.tell("table", x.r, g, 0, list(table))

    def _tell_keys(self, x):
        chain, size = self._chain(x), self.cache.hash_block
        for at, key in enumerate(chain):
            self.tokens_of_key.setdefault(key, x.tokens[: (at + 1) * size])
        self.tell("keys", x.r, 0, [self.numbers.setdefault(key, len(self.numbers)) for key in chain])

    def _tell_event(self, event):
        if isinstance(event, AllBlocksCleared):
            self.tell("cleared", "device")
            return
        number, group = self._named(event.key)
        if not isinstance(event, BlockStored):
            self.tell("removed", "device", group, [number])
            return
        if any(each.kind != "full" for each in self.cache.groups):
            # What a window has left behind is never reported, and so no parent of what is.
            self.tell("stored", "device", group, [number], None)
            return
        size = self.cache.groups[group].block
        before = None if event.parent is None else self._named(event.parent)[0]
        self.tell("stored", "device", group, [number], before, self.tokens_of_key[event.key[4:]][-size:], size)

    def _named(self, key):
        """The number of a key and its group."""
        return [self.numbers[key[4:]], int.from_bytes(key[:4], "little")]

    def _count(self, x, hits):
        if not self.caching:
            return
        kind = "preempted_" if x.preempted else ""
        for name, more in (("requests", 1), ("queries", x.known), ("hits", hits)):
            self.counts[kind + name] += more
        self.tell("counts", dict(self.counts))

    # --------------------------------------------------------------------------------------------- helpers

    def _chain(self, x):
        return chain_keys(x.tokens[: x.known], self.cache.hash_block, x.extras)

    def _in(self, *status):
        return [x for x in self.requests if x.status in status]

    def _pick(self, args, *status):
        found = self._in(*status)
        if not found:
            return None
        x = found[args.get("i", 0) % len(found)]
        args["r"] = x.r
        return x


def _items(wanted, length):
    """Items from gaps and names: in order, apart, and within the prompt."""
    items, at = [], 0
    for gap, number in wanted:
        name = _NAMES[1 + number % 2]
        at += gap
        if at + _LENGTHS[name] > length:
            break
        items.append([at, _LENGTHS[name], name])
        at += _LENGTHS[name]
    return items


LEVELS = {"manager": Manager}

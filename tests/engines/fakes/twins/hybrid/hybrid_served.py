"""Requests over the reference implementation of hybrid groups: what the twins of vLLM's levels have in common."""

import math
from dataclasses import dataclass

from level import SKIPPED, Level, Refused

from kvproof.refimpl.events import AllBlocksCleared, BlockStored
from kvproof.refimpl.hybrid.cache import HybridCache
from kvproof.refimpl.hybrid.planner import Group
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.blocks import blocks_for
from kvproof.refimpl.pool.keys import ExtraKeys, chain_keys

__all__ = ["Request", "Served"]


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
    rank: tuple[int, int] = (0, 0)
    """Who has the least is served first."""
    stop: int | None = None
    least: int = 0
    """So many tokens come before it stops."""
    skips: bool = False
    """Nothing cached is to be read for it."""

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

    def finish(self, request):
        tables = self.tables(request)
        super().finish(request)
        if self.fault == "holds the last block" and len(tables[0]) > 2 and tables[0][-1]:
            self.pool.touch([tables[0][-1]])


class Served(Level):
    """A hybrid cache and who uses it. ``setup`` is that of the level of vLLM, and ``fault``."""

    def __init__(self, setup: dict, unknown: tuple[str, ...]) -> None:
        super().__init__()
        asked = [name for name in unknown if setup.get(name)]
        if asked or any(group["kind"] not in ("full", "window") for group in setup["groups"]):
            raise Refused(f"the twin has no {', '.join(asked) or 'such groups'}")
        self.setup = setup
        self.caching, self.events = setup.get("caching", True), setup.get("events", False)
        groups = [Group(group["block"], group["kind"], group.get("window", 0)) for group in setup["groups"]]
        least = sum(blocks_for(setup["max_len"], group.block) for group in groups)
        spare = max(0, setup.get("spare", 0))
        self.pool = BlockPool(1 + least + spare, caching=self.caching, events=bool(self.events))
        self.cache = Faulty(self.pool, math.gcd(*(group.block for group in groups)), groups)
        self.cache.fault = setup.get("fault", "")
        self.requests: list[Request] = []
        self.numbers: dict[bytes, int] = {}
        self.tokens_of_key: dict[bytes, list[int]] = {}
        self.counts: dict[str, int] = {}

    def made_world(self, **notes) -> dict:
        """The world, with what else is to be noted."""
        return {
            "groups": self.setup["groups"],
            "tiers": {"device": {"blocks": self.pool.num_blocks, "null": 0}},
            "hash_block": self.cache.hash_block,
            "exact": True,
            "notes": {"dialect": {"keep": "all" if self.caching else "none"}, **notes},
        }

    def do(self, op, args):
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

    def _preempt(self, x):
        """The request gives its blocks back and waits; what was sampled and not told is lost."""
        self.cache.preempt(x.r)
        status = "forgotten" if self.cache.fault == "forgets who is preempted" else "waiting"
        x.status, x.scheduled, x.epoch, x.preempted = status, 0, x.epoch + 1, x.preempted + 1
        del x.tokens[x.known :]
        self.tell("preempted", x.r)

    def _take(self, x, end, sampled):
        """The result of a forward pass up to ``end`` arrives."""
        if sampled:
            x.known += len(sampled)
            self.tell("append", x.r, sampled)
            self._tell_keys(x)
        self.cache.register(x.r, self._chain(x), end)
        self.cache.drop_outside(x.r)

    # --------------------------------------------------------------------------------------------- the cache

    def _grow(self, x, tokens):
        """Let the tables of a request that runs cover so many tokens, and tell what is new in them."""
        had = [len(table) for table in self.cache.tables(x.r)]
        if not self._allocate(x, tokens):
            return False
        for g, table in enumerate(self.cache.tables(x.r)):
            if len(table) > had[g]:
                self.tell("table", x.r, g, had[g], list(table[had[g] :]))
        return True

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

    # ------------------------------------------------------------------------------------------------ telling

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
        """What a lookup counts, once: of a request that was preempted apart."""
        if not self.caching:
            return
        kind = "preempted_" if x.preempted else ""
        for name, more in (("requests", 1), ("queries", x.known), ("hits", hits)):
            self.counts[kind + name] = self.counts.get(kind + name, 0) + more
        self.tell("counts", dict(self.counts))

    # ------------------------------------------------------------------------------------------------ helpers

    def _chain(self, x):
        return chain_keys(x.tokens[: x.known], self.cache.hash_block, x.extras)

    def _in(self, *status):
        return [x for x in self.requests if x.status in status]

"""A `BlockManager` as a system of the level ``requests``: the kit's scheduler, which tells what was asked and answered.

It plays what a server does around its block manager, in the words of `docs/protocol.md`, and judges nothing.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from functools import partial
from operator import index
from typing import Any

from ..engines.driver.requests import LEVEL
from .answers import copies, items, listed, number, numbers, was_reset
from .capable import capabilities, has
from .host_side import HostSide
from .layout import Groups, Layout, Tables
from .left_alone import left_alone
from .manager import BlockManager, Refused, Request
from .scheduler import SKIPPED, Scheduler

__all__ = ["LEVEL", "Refused", "System"]

_EVENTS = "(stored, key), (stored, key, parent), (stored, key, parent, tokens), (removed, key) and (cleared,)"


class System(Scheduler):
    """One manager, and the requests that the kit's scheduler has."""

    def __init__(self, kind: type[BlockManager], setup: dict[str, Any]) -> None:
        """Make a manager from a setup.

        Raises:
            Refused: it does not take one like that.
        """
        can = capabilities(kind)
        blocks, self._size, caching = _read(setup, can["options"])
        host_blocks: int = setup.get("host_blocks", 0)
        self._events: bool = setup.get("events", False)
        windows = kind.groups or (kind.window,)
        blocks, host_blocks = blocks * len(windows), host_blocks * len(windows)
        given = {"caching": caching, "host_blocks": host_blocks}
        options = {name: value for name, value in given.items() if name in can["options"]}
        super().__init__(kind(blocks, self._size, **options), can["operations"])
        self._kind = kind
        self._shows = can["visible"]["device"]
        self._looks_up = has(kind, "lookup")
        self._tells_copies = has(kind, "take_copies")
        self._told: dict[str, list[int]] = {}
        self._is_cut = False
        """The result of the next forward pass is not waited for: its request gives up its blocks before."""
        null = kind.null_block
        self._layout = Groups(null, len(kind.groups)) if kind.groups else Layout(null)
        self._blocks = blocks + kind.kept_back + (null is not None)
        if null is not None and null >= self._blocks:
            raise ValueError(f"null_block is {null}, and its {self._blocks} blocks are numbered from 0")
        device = {"blocks": self._blocks, **({} if null is None else {"null": null})}
        dialect = {**({"behind": "needed"} if any(windows) else {}), **kind.dialect}
        if not caching:
            dialect["keep"] = "none"
        notes: dict[str, Any] = {"dialect": dialect}
        if not has(kind, "keys"):
            notes["keys"] = "tokens"
        if kind.kept_back:
            notes["kept_back"] = kind.kept_back
        if host_blocks and has(kind, "host_lookup"):
            notes["loads"] = ["host"]
        if host_blocks and kind.eager and has(kind, "stored"):
            notes["eager"] = ["host"]
        self._host = HostSide(self._ask, self._tell, partial(has, kind), self._layout) if host_blocks else None
        self.world: dict[str, Any] = {
            "groups": [_attention(window) | {"block": self._size} for window in windows],
            "tiers": {"device": device, **({"host": {"blocks": host_blocks}} if host_blocks else {})},
            "hash_block": self._size,
            "exact": kind.exact,
            "notes": notes,
        }

    # ----------------------------------------------------------------------------------------------------- the protocol

    def state(self) -> dict[str, Any]:
        """Return what the manager tells of its state."""
        told = {name: getattr(self, f"_shown_{name}")() for name in self._shows}
        tables = {
            name: self._layout.read(self._ask("table", request), "table")
            for name, request in self._with_blocks().items()
        }
        counts = {"waiting": len(self._waiting), "running": len(tables), "pending": 0}
        if self._host is None:
            return {"pools": {"device": told}, "tables": tables, **counts}
        pools = {"device": told, "host": self._host.state()}
        counts["pending"] = self._host.pending
        return {"pools": pools, "tables": tables, "holds": self._host.holds(), **counts}

    def _with_blocks(self) -> dict[str, Request]:
        """The requests that were admitted, and are not over."""
        return self._running

    # ------------------------------------------------------------------------------------------------------- operations

    def _grown(self, request: Request, tokens: list[int]) -> bool:
        before = len(request.tokens)
        request.tokens += tokens
        table = self._allocate(request, len(request.tokens))
        if table is None:
            del request.tokens[before:]
            return False
        self._tell("append", request.name, list(tokens))
        self._tell_keys(request)
        self._compute(request, table, len(request.tokens))
        return True

    def _cut(self, request: str, tokens: list[int]) -> Any:
        """A request goes on as it would, and is preempted before its manager is told that anything was computed.

        So do servers that prepare a step while the one before it runs; what is freed then is what was allocated, and
        not what was computed.

        Skipped: it waits, and there is a host. What a reload brings may be registered by the commit, which does not
        come (M5).
        """
        if request in self._waiting and self._host is not None:
            return SKIPPED
        self._is_cut = True
        try:
            if request in self._waiting:
                return self._resume(request)
            grown = self._grow(request, tokens)
            return self._step(request, len(tokens)) if grown is SKIPPED else grown
        finally:
            self._is_cut = False

    def _fork(self, request: str, child: str) -> Any:
        running = self._running.get(request)
        if running is None or running.computed < len(running.tokens) or child in {**self._waiting, **self._running}:
            return SKIPPED
        return self._forked(running, Request(child, [*running.tokens], running.adapter, running.salt))

    def _mirror(self, requests: list[str]) -> Any:
        """A store that is under way is done, and these requests' blocks are offered."""
        if self._host is None:
            return SKIPPED
        self._are_stored(self._host.end_store(len(requests)))
        self._store(self._host, [self._running[name] for name in requests if name in self._running])
        return None

    def _drain(self) -> Any:
        """In the end nothing is under way any more."""
        done = super()._drain()
        self._end_stores()
        return done

    def _admit_at_rest(self, request: Request) -> bool:
        """Every other request is admitted with a first chunk of its tokens: it must be able to go on, too.

        What its first step began to store has blocks that others left, in a tier that writes them back; it may wait
        for them, so nothing is under way when it goes on either.
        """
        self._end_stores()
        length = len(request.tokens)
        if not self._admit(request, length // 2 if length % 2 else 0):
            return False
        self._come_to_rest()
        self._end_stores()
        if request.computed == length or self._advance(request, length):
            return True
        self._preempt(request.name)
        return False

    def _evict(self, block: int) -> Any:
        if not 0 <= block < self._blocks or block == self._kind.null_block:
            return SKIPPED
        self._ask("evict", block)
        return None

    def _reset(self) -> Any:
        return was_reset(self._ask("reset"))

    # -------------------------------------------------------------------------------------- what operations are made of

    def _admit(self, request: Request, most: int) -> bool:
        """Look up, hold, make room and compute; without room nothing has happened."""
        self._tell_keys(request)
        size = self._size
        found = self._layout.read(self._ask("lookup", request) if self._looks_up else [], "lookup")
        request.found = self._layout.as_told(found)
        external = 0 if self._host is None else self._found_there(self._host, request) * size
        request.cached = len(found[0]) * size + external
        until = self._first_end(request, most)
        table = self._allocate(request, until)
        if table is None:
            self._forget_found(request)
            return False
        if self._host is not None and external:
            request.table = self._layout.as_told(table)
            if self._host.begin_load(request, self._ask("load", request)):
                self._begins_to_load(request, table, found, external, until)
                return True
        self._admitted(request, table, found, external)
        self._compute(request, table, max(until, request.computed))
        return True

    def _first_end(self, request: Request, most: int) -> int:
        """Where the first forward pass of a request ends, of which so many tokens are wanted, or all (0)."""
        length = len(request.tokens)
        return min(length, request.cached + (most if most and self._kind.in_parts else length))

    def _begins_to_load(self, request: Request, table: Tables, found: Tables, external: int, until: int) -> None:
        """It holds its blocks, and waits for what comes from the host: `LoadingSystem` is what lets it."""
        raise NotImplementedError

    @staticmethod
    def _forget_found(request: Request) -> None:
        """It was not admitted: what was found for it counts no more."""
        request.found, request.on_host, request.cached = [], [], 0

    def _admitted(self, request: Request, table: Tables, found: Tables, external: int) -> None:
        """It runs from now on, behind what was found for it: these blocks, and so many tokens on the host.

        The lists that the request has are its manager's too, which may take from them what it takes hold of.
        """
        self._running[request.name] = self._waiting.pop(request.name)
        size, length, cached = self._size, len(request.tokens), _tokens_cached(request)
        only_local = self._looks_up and not external and cached <= len(found[0]) * size
        handed = self._first(found if only_local else table, cached)
        self._tell("lookup", request.name, cached - external, external, length - 1)
        self._tell("found", request.name, handed, cached)
        request.computed = min(cached, length)

    def _forked(self, request: Request, child: Request) -> bool:
        """The child runs behind the same tokens; nothing was looked up for it, and nothing is to be computed."""
        told = self._ask("fork", request, child)
        table = None if told is None else self._layout.read(told, "fork")
        self._tell_copies()
        if table is None:
            return False
        about = {"tokens": [*child.tokens], "adapter": child.adapter, "salt": child.salt, "fork": request.name}
        self._running[child.name] = child
        child.table, child.computed = self._layout.as_told(table), len(child.tokens)
        self._tell("request", child.name, about)
        self._tell_keys(child)
        self._tell_table(child, table)
        self._tell("found", child.name, self._first(table, child.computed), child.computed)
        self._tell("processed", child.name, child.computed)
        return True

    def _advance(self, request: Request, until: int) -> bool:
        table = self._allocate(request, until)
        if table is None:
            return False
        self._compute(request, table, until)
        return True

    def _allocate(self, request: Request, tokens: int) -> Tables | None:
        """Ask for blocks; what is told of them may be read once only."""
        told = self._ask("allocate", request, tokens)
        table = None if told is None else self._layout.read(told, "allocate")
        self._tell_copies()
        return table

    def _tell_copies(self) -> None:
        """The copies within the device that the manager wants done by now."""
        if self._tells_copies:
            pairs = copies(self._ask("take_copies"), "take_copies")
            if pairs:
                self._tell("copied", [["device", a, "device", b] for a, b in pairs])

    def _compute(self, request: Request, table: Tables, until: int) -> None:
        """The forward pass up to a position, in the blocks of this table, and its result."""
        before = request.computed
        self._forward(request, table, until)
        if self._is_cut:
            request.computed = before
            self._preempt(request.name)
            return
        self._process(request, until)

    def _process(self, request: Request, until: int) -> None:
        """Let the manager take note of what the forward pass has computed, and store of it what it likes."""
        self._ask("commit", request, until)
        self._tell("processed", request.name, until)
        if self._host is not None and self._host.takes_time:
            self._store(self._host, [request])

    def _forward(self, request: Request, table: Tables, until: int) -> None:
        """The forward pass, of which the manager was not told yet."""
        request.table = self._layout.as_told(table)
        self._tell_table(request, table)
        if request.computed < until:
            self._tell("compute", request.name, request.computed, request.tokens[request.computed : until])
        request.computed = until

    def _tell_table(self, request: Request, table: Tables) -> None:
        for g, blocks in enumerate(table):
            self._tell("table", request.name, g, 0, [*blocks])

    def _let_go(self, request: Request, *, finished: bool = False) -> None:  # noqa: ARG002
        self._ask("free", request)
        self._runs_no_more(request)

    def _runs_no_more(self, request: Request) -> None:
        del self._running[request.name]
        self._has_nothing(request)

    @staticmethod
    def _has_nothing(request: Request) -> None:
        request.table, request.found, request.on_host, request.cached, request.computed = [], [], [], 0, 0

    def _tell_keys(self, request: Request) -> None:
        self._tell_those(request, self._keys(request))

    def _tell_those(self, request: Request, keys: list[int]) -> None:
        """Those keys of a request that are new, or not what they were."""
        told = self._told.get(request.name, [])
        same = next((i for i, (a, b) in enumerate(zip(keys, told, strict=False)) if a != b), min(len(keys), len(told)))
        if keys[same:]:
            self._tell("keys", request.name, same, keys[same:])
        self._told[request.name] = keys

    def _keys(self, request: Request) -> list[int]:
        """The numbers of its keys."""
        tokens, ends = request.tokens, range(self._size, len(request.tokens) + 1, self._size)
        if "keys" in self.world["notes"]:
            return [self._layout.number((request.adapter, request.salt, tuple(tokens[:end])), "keys") for end in ends]
        keys = [*listed(self._ask("keys", request), "keys", "keys")]
        if len(keys) != len(ends):
            raise ValueError(f"keys() returned {len(keys)} keys, and {request.name} has {len(ends)} full blocks")
        return [self._layout.number(key, "keys") for key in keys]

    def _done(self) -> None:
        if self._events:
            self._tell_events()
            self._tell("boundary", "device")

    def _tell_events(self) -> None:
        for event in listed(self._ask("take_events"), "take_events", "events"):
            kind, *rest = event if isinstance(event, tuple | list) and event else (None,)
            if kind == "stored" and len(rest) in (1, 2, 3):
                parent = [None if key is None else self._layout.entry(key, "take_events")[0] for key in rest[1:2]]
                key, group = self._layout.entry(rest[0], "take_events")
                tokens = [numbers(rest[2], "take_events"), self._size] if len(rest) == 3 else []
                self._tell("stored", "device", group, [key], *parent, *tokens)
            elif kind == "removed" and len(rest) == 1:
                key, group = self._layout.entry(rest[0], "take_events")
                self._tell("removed", "device", group, [key])
            elif kind == "cleared" and not rest:
                self._tell("cleared", "device")
            else:
                raise ValueError(f"take_events() told {reprlib.repr(event)}; there are {_EVENTS}")

    # ---------------------------------------------------------------------------------------------------- the host tier

    def _found_there(self, host: HostSide, request: Request) -> int:
        """Look up where the host goes on: so many blocks, in each group."""
        return host.found(request, self._ask("host_lookup", request) if host.finds else [])

    def _store(self, host: HostSide, requests: list[Request]) -> None:
        """Let the manager store what it likes of these requests' blocks."""
        host.begin_stores(self._ask("store", requests))

    def _end_stores(self) -> None:
        """All that are under way are done."""
        if self._host is not None:
            self._are_stored(self._host.end_stores())

    def _are_stored(self, jobs: Iterable[Any]) -> None:
        for job in jobs:
            self._ask("stored", job)

    # -------------------------------------------------------------------------------------------------------- the state

    def _shown_ref(self) -> list[int]:
        told = self._ask("ref_counts")
        return numbers(told if isinstance(told, Iterator) else [*listed(told, "ref_counts", "counts")], "ref_counts")

    def _shown_free(self) -> list[int]:
        return numbers(self._ask("free_queue"), "free_queue")

    def _shown_num_free(self) -> int:
        return number(self._ask("num_free"), "num_free")

    def _shown_cached(self) -> list[list[Any]]:
        entries = items(self._ask("cached"), "cached")
        blocks = ((key, at if isinstance(at, Iterable) else [number(at, "cached")]) for key, at in entries)
        return [[*self._layout.entry(key, "cached"), numbers(at, "cached")] for key, at in blocks]

    def _shown_hashes(self) -> list[list[Any]]:
        entries = items(self._ask("block_keys"), "block_keys")
        return [[number(block, "block_keys"), [self._layout.entry(key, "block_keys")]] for block, key in entries]

    # ----------------------------------------------------------------------------------------------------- small things

    def _ask(self, method: str, *args: Any) -> Any:
        """Call the adapter, and wait for an answer that takes its time."""
        with left_alone(method, args):
            return super()._ask(method, *args)

    def _first(self, table: Tables, tokens: int) -> Tables:
        """Of each group the blocks of so many first tokens."""
        return [blocks[: -(-tokens // self._size)] for blocks in table]


def _tokens_cached(request: Request) -> int:
    try:
        return index(request.cached)
    except TypeError as error:
        raise TypeError(f"request.cached is {reprlib.repr(request.cached)}, which is no number of tokens") from error


def _attention(window: int | None) -> dict[str, Any]:
    return {"kind": "full"} if window is None else {"kind": "window", "window": window}


def _read(setup: dict[str, Any], options: list[str]) -> tuple[int, int, bool]:
    """The blocks, the tokens of a block, and whether there is caching.

    Raises:
        Refused: that is no setup, or has an option that the manager does not.
    """
    for name in _unknown(setup, options):
        raise Refused(f"there is no option {name}")
    blocks, size, caching = setup.get("blocks"), setup.get("block_tokens"), setup.get("caching", True)
    for name, value in (("blocks", blocks), ("block_tokens", size)):
        if type(value) is not int or value < 1:
            raise Refused(f"{name} must be a number above 0")
    if type(caching) is not bool or type(setup.get("events", False)) is not bool:
        raise Refused("caching and events must be true or false")
    assert isinstance(blocks, int)
    assert isinstance(size, int)
    return blocks, size, caching


def _unknown(setup: dict[str, Any], options: list[str]) -> Iterator[str]:
    return (name for name in setup if name not in ("blocks", "block_tokens", *options))

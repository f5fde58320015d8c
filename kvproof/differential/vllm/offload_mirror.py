"""The small scheduler of the worker's `vllm_simple_offload.py` once more, over the reference implementation.

It takes every decision by itself, from the same operations: who is scheduled, preempted, admitted, looked up, stored
and loaded. Of what the engine did it reads which request an operation picked, and two things that no rule decides: in
which order the loads of several requests end that were reported together, and how far a lazy scan goes in a step.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import Any

import torch

from ...judge.record import Step
from ...refimpl.offload.manager import OffloadManager
from ...refimpl.offload.transfers import Store, WorkerReport
from ...refimpl.pool.block_pool import BlockPool, FreeOrder
from ...refimpl.pool.keys import block_key
from ...refimpl.pool.manager import KVCacheManager

__all__ = ["Mirror", "PartedError"]

SKIPPED = object()
"""What an operation returns when there was nothing to do it to."""


_ORDERS = 6
"""Of how many loads that end together the order is looked for."""


class PartedError(Exception):
    """From here on the policies of both differ, and their states with them. The text says which policy."""


@dataclass
class _Live:
    """A request, as both sides' drivers know it."""

    tokens: list[int]
    most: int
    """Tokens to sample."""
    keys: list[bytes] = field(default_factory=list)
    status: str = "waiting"
    computed: int = 0
    sampled: int = 0
    registered: int = 0
    """Positions whose key the device has, or had, from this request."""
    seen: bool = False
    received: int = 0
    """How many workers reported its load."""


@dataclass
class _Step:
    """What a step scheduled."""

    room: int
    tokens: dict[str, int] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    cached: list[str] = field(default_factory=list)
    loading: list[str] = field(default_factory=list)


@dataclass(eq=False)
class _Part:
    """One worker's part of what a step copies in one direction."""

    kind: str
    event: int
    worker: int
    done: bool = False


class Mirror:
    """A manager with offload, its requests and the copies under way."""

    def __init__(self, setup: dict[str, Any], *, split: bool, stores_wait: bool) -> None:
        """Set up what the case sets up.

        Args:
            setup: of a case of the level ``offload`` with one group, of full attention.
            split: the dialect of P10.
            stores_wait: whether stores are submitted behind the forward pass of their step. Then what this step writes
                for one request and another hits is computed before it is copied.
        """
        order: FreeOrder = "split" if split else "append"
        self._block: int = setup["groups"][0]["block"]
        self._budget: int = setup["budget"]
        self._max_len: int = setup["max_len"]
        self._workers: int = setup["workers"]
        self._lazy: bool = setup["lazy"]
        self._stores_wait = stores_wait
        self.manager = OffloadManager(
            BlockPool(setup["blocks"], free_order=order, events=False),
            block_tokens=self._block,
            host=BlockPool(setup["host"] - 1, free_order=order, null_block=False, events=False),
            workers=self._workers,
            lazy=self._lazy,
        )
        self.keys: dict[str, list[bytes]] = {}
        """The keys of every request there ever was."""
        self.lookups: list[list[Any]] = []
        """What the lookups of the last operation found: request, tokens on the device, tokens on the host."""
        self.copies: list[list[list[Any]]] = []
        """The copies that the last operation submitted."""
        self.live: dict[str, _Live] = {}
        self._waiting: list[str] = []
        self._running: list[str] = []
        self._preempted = False
        self._number = 0
        self._events = {"load": 0, "store": 0}
        self._transfers: dict[tuple[str, int], list[tuple[str, int]]] = {}
        """The transfers of an event: the request of a load, and the id."""
        self._streams: dict[tuple[str, int], deque[_Part]] = {}
        self._submitted: list[_Part] = []
        self._ended: list[tuple[str, Any, list[int]]] = []
        self._pins: dict[str, None] = {}
        """Requests that were looked up on the host, the last one last: a reset drops pins in this order."""
        self._told: Step | None = None
        self._forgot = False
        """Lazy mode: whether the host has forgotten, for a store, what the device has."""

    # ------------------------------------------------------------------------------------------------ operations

    def do(self, told: Step) -> Any:
        """Do the operation of a step, and return its result.

        Raises:
            PartedError: the policies part here.
        """
        self._told, self.lookups, self.copies = told, [], []
        op: Callable[[dict[str, Any]], Any] = getattr(self, f"_op_{told.op}")
        return op(told.args)

    def _op_add(self, args: dict[str, Any]) -> Any:
        own = [(args["tail"] + n) % 3 for n in range(args["own"])]
        tokens = [args["family"]] * args["shared"] + own
        most = min(args["most"], self._max_len - len(tokens))
        if not tokens or most < 1:
            return SKIPPED
        self._number += 1
        r = f"r{self._number}"
        self.live[r] = live = _Live(tokens, most)
        self.keys[r] = live.keys
        self._hash(live)
        self._waiting.append(r)
        return None

    def _op_step(self, args: dict[str, Any]) -> dict[str, Any]:
        step = _Step(self._budget)
        preempted = self._go_on(step, args["most"])
        if not preempted:
            self._admit(step, args["most"])
        self._execute(step)
        ended = self._process(step, args["sample"], args["stop"])
        received, stored = self._report()
        return {"tokens": step.tokens, "preempted": preempted, "ended": ended, "loaded": received, "stored": stored}

    def _op_work(self, args: dict[str, Any]) -> Any:
        if not self._streams:
            return SKIPPED
        key = sorted(self._streams)[args["which"] % len(self._streams)]
        stream = self._streams[key]
        return {"worker": key[1], "ended": self._end(stream[-1 if args["all"] == 1 else 0])}

    def _op_probe(self, args: dict[str, Any]) -> Any:
        if not any(self._is_fresh(r) for r in self._waiting):
            return SKIPPED
        r = args["r"]
        local, external = self._enter(r, None)
        return {"local": local, "external": external}

    def _op_preempt(self, args: dict[str, Any]) -> Any:
        if not self._running:
            return SKIPPED
        self._preempt(args["r"])
        return None

    def _op_abort(self, args: dict[str, Any]) -> Any:
        if not self._running and not self._waiting:
            return SKIPPED
        self._finish(args["r"])
        return None

    def _op_repeat(self, args: dict[str, Any]) -> Any:
        """Report anew, for every worker, what has ended."""
        if "of" not in args:
            return SKIPPED
        kind, what = args["of"]
        ids = next(ids for was, name, ids in self._ended if (was, name) == (kind, what))
        for report in (WorkerReport(worker, number) for number in ids for worker in range(self._workers)):
            assert not self.manager.report(report), f"{report} is stale, and was waited for"
        return None

    def _op_reset(self, args: dict[str, Any]) -> bool:
        if args.get("running"):
            for r in self._running[::-1]:
                self._preempt(r)
        if not args["connector"]:
            return KVCacheManager.reset(self.manager)
        pinned = self.manager.snapshot().pins
        for r in [r for r in self._pins if r in pinned]:
            self._without_pins(r, partial(self.manager.unpin, r))
        done = self.manager.reset()
        if not done:
            raise PartedError("a reset that is refused: vLLM resets each tier by itself and voids its transfers")
        return done

    # ------------------------------------------------------------------------------------------------- scheduling

    def _go_on(self, step: _Step, most: int) -> list[str]:
        preempted: list[str] = []
        place = 0
        while place < len(self._running) and step.room:
            r = self._running[place]
            live = self.live[r]
            tokens = min(len(live.tokens) - live.computed, most, step.room)
            while not self._grow(r, live.computed + tokens):
                last = self._running[-1]
                self._preempt(last)
                preempted.append(last)
                if last == r:
                    return preempted
            step.cached.append(r)
            self._schedule(step, r, tokens)
            place += 1
        return preempted

    def _admit(self, step: _Step, most: int) -> None:
        for r in self._waiting[:]:
            live = self.live[r]
            if not step.room:
                return
            if live.status == "loading":
                if live.received < self._workers:
                    continue
                self._register(r, live.computed)
                live.status = "waiting"
            if self._is_fresh(r):
                local, external = self._enter(r, min(most, step.room))
                if live.status == "waiting":
                    return
                live.computed = local + external
                if external:
                    step.loading.append(r)
                    continue
            elif not self._grow(r, live.computed + min(len(live.tokens) - live.computed, most, step.room)):
                return
            live.status = "running"
            self._waiting.remove(r)
            self._running.append(r)
            (step.cached if live.seen else step.new).append(r)
            live.seen = True
            self._schedule(step, r, min(len(live.tokens) - live.computed, most, step.room))

    def _enter(self, r: str, most: int | None) -> tuple[int, int]:
        """Look a request up in both tiers and, where ``most`` is given, let it in if there is room: by its status."""
        live, manager, block = self.live[r], self.manager, self._block
        limit = (len(live.tokens) - 1) // block
        if not manager.is_inside(r):
            assert manager.admit(r, -(-self._max_len // block)), "no room for one request"
        found = manager.find(live.keys, limit)
        unheld = sum(map(manager.pool.is_free, found))
        if unheld and self._is_in_vain(live, len(found), unheld, most):
            if manager.num_pinned(r):
                self._without_pins(r, partial(manager.unpin, r))
            self.lookups.append([r, len(found) * block, 0, len(live.tokens) - 1])
            return len(found) * block, 0
        local = manager.hit(r, live.keys, limit)
        external = self._without_pins(r, partial(manager.look, r, live.keys, limit))
        self._pins.pop(r, None)
        self._pins[r] = None
        self.lookups.append([r, local * block, external * block, len(live.tokens) - 1])
        taken = False
        if most is not None and external:
            taken = manager.load(r, external) is not None
            live.status = "loading" if taken else "waiting"
            live.received = 0
        elif most is not None:
            taken = self._grow(r, min(len(live.tokens), local * block + most))
            live.status = "running" if taken else "waiting"
        if taken:
            live.registered = local
        else:
            manager.trim(r, manager.num_positions(r))
            if unheld:
                raise PartedError("a refused admission: blocks that it found free go to the tail of the device's queue")
        return local * block, external * block

    def _is_in_vain(self, live: _Live, local: int, unheld: int, most: int | None) -> bool:
        """Tell whether a lookup admits nobody and pins nothing: vLLM then does not touch what is found."""
        keys = live.keys[local : (len(live.tokens) - 1) // self._block]
        if keys and self.manager.host.lookup(keys[0]) is not None:
            return False
        needed = -(-min(len(live.tokens), local * self._block + (most or 0)) // self._block) - local
        return most is None or needed > self.manager.pool.num_free - unheld

    def _grow(self, r: str, tokens: int) -> bool:
        """Let a table have room for this many tokens, if there is any."""
        more = -(-tokens // self._block) - self.manager.num_positions(r)
        return more <= 0 or self.manager.allocate(r, more) is not None

    def _schedule(self, step: _Step, r: str, tokens: int) -> None:
        """Scheduling counts as writing: what is full behind these tokens can be found at once."""
        live = self.live[r]
        step.tokens[r] = tokens
        step.room -= tokens
        self.manager.write_run(r, live.computed, torch.zeros(tokens, dtype=torch.int64))
        self._register(r, live.computed + tokens)

    def _register(self, r: str, tokens: int) -> None:
        live, block = self.live[r], self._block
        for at in range(live.registered, tokens // block):
            self.manager.register(r, at, live.keys[at], live.keys[at - 1] if at else None, block)
        live.registered = max(live.registered, tokens // block)

    def _is_fresh(self, r: str) -> bool:
        live = self.live[r]
        return live.status == "waiting" and not live.computed

    def _hash(self, live: _Live) -> None:
        for at in range(len(live.keys), len(live.tokens) // self._block):
            tokens = live.tokens[at * self._block : (at + 1) * self._block]
            live.keys.append(block_key(live.keys[-1] if live.keys else None, tokens))

    # ------------------------------------------------------------------------------------------------------ pins

    def _without_pins(self, r: str, call: Callable[[], Any]) -> Any:
        """Do what drops pins; several that nobody else holds go last first here, first first there."""
        pins = self.manager.snapshot().pins.get(r, {}).values()
        done = call()
        if sum(map(self.manager.host.is_free, pins)) > 1:
            raise PartedError("pins that are dropped: the last goes first here, the first in vLLM")
        return done

    # -------------------------------------------------------------------------------------------------- execution

    def _execute(self, step: _Step) -> None:
        """Plan the stores of this step, and submit what was planned since the last one."""
        earlier = self.manager.take_messages()
        if self._lazy:
            self._scan()
        else:
            for r in [*step.new, *step.cached]:
                self._offer(r)
        stores = [*self.manager.take_messages(), *(message for message in earlier if isinstance(message, Store))]
        loads = [message for message in earlier if not isinstance(message, Store)]
        if self._preempted:
            self._end_all()
        self._preempted = False
        self._submit("load", list(zip(step.loading, loads, strict=True)))
        self._submit("store", [("", message) for message in stores])
        for r, tokens in step.tokens.items():
            self.live[r].computed += tokens

    def _offer(self, r: str) -> None:
        """Offer what earlier steps computed of a request; what the host has no room for is kept for the next step."""
        live, manager = self.live[r], self.manager
        table = manager.table(r)
        ready = live.computed // self._block
        if self._stores_wait:
            for block in filter(manager.is_computing, table[:ready]):
                manager.processed(block)
        room, n, begin = manager.host.num_free, 0, manager.num_offered(r)
        if not room:
            return
        for at in range(begin, ready):
            if self._would_store(table[at], live.keys[at]):
                if not room:
                    break
                room -= 1
            n += 1
        self._one_by_one(live.keys[begin:ready], partial(manager.offer, r, n))

    def _would_store(self, block: int, key: bytes) -> bool:
        """Tell whether an offer would begin a store: as `OffloadManager.offer` says."""
        if key not in self.manager.pool.keys_of(block) or self.manager.host.lookup(key) is not None:
            return False
        stores = self.manager.snapshot().stores.values()
        return all((block, key) != (pair[0], of) for s in stores for pair, of in zip(s.pairs, s.keys, strict=True))

    def _one_by_one(self, keys: Iterable[bytes], call: Callable[[], Any]) -> None:
        """Do what offers blocks with these keys."""
        host = self.manager.host
        resident = {key for key in keys if host.lookup(key) is not None}
        before = set(self.manager.snapshot().stores)
        call()
        after = self.manager.snapshot().stores
        if any(resident.intersection(store.keys) for number, store in after.items() if number not in before):
            raise PartedError("a block that was on the host until one offered with it was stored there: stored again")

    def _scan(self) -> None:
        """Scan until as much is stored as there: how far a scan looks in one step is not compared."""
        manager = self.manager
        there = [(pair[1], pair[3] - 1) for copy in _stored_by(self._told) for pair in copy]
        before, known = set(manager.snapshot().stores), set(manager.host.snapshot().copies)
        idle = 0
        while self._planned(before) < len(there) and idle <= manager.pool.num_free:
            idle = 0 if manager.scan(1) else idle + 1
        gone = known.difference(manager.host.snapshot().copies)
        self._forgot = self._forgot or any(manager.pool.lookup(key) is not None for key in gone)
        stores = manager.snapshot().stores
        here = [pair for number, store in stores.items() if number not in before for pair in store.pairs]
        if self._forgot and here != there:
            raise PartedError("a lazy scan: what the host has forgotten is looked for again here, passed by in vLLM")

    def _planned(self, before: set[int]) -> int:
        """How many blocks the stores have that were not there before."""
        return sum(len(store.pairs) for number, store in self.manager.snapshot().stores.items() if number not in before)

    def _submit(self, kind: str, what: list[tuple[str, Any]]) -> None:
        if not what:
            return
        number = self._events[kind]
        self._events[kind] += 1
        self._transfers[kind, number] = [(r, message.id) for r, message in what]
        self.copies.append([[kind, *pair] for _, message in what for pair in message.pairs])
        for worker in range(self._workers):
            part = _Part(kind, number, worker)
            self._streams.setdefault((kind, worker), deque()).append(part)
            self._submitted.append(part)

    def _end(self, part: _Part) -> list[str]:
        """End a part and those before it on its stream."""
        ended: list[str] = []
        while not part.done:
            stream = self._streams[part.kind, part.worker]
            first = stream.popleft()
            if not stream:
                del self._streams[part.kind, part.worker]
            first.done = True
            ended.append(f"host {first.kind} {first.event}")
        return ended

    def _end_all(self) -> None:
        for part in self._submitted:
            self._end(part)

    # -------------------------------------------------------------------------------------------------- afterwards

    def _process(self, step: _Step, sample: int, stop: int) -> list[str]:
        ended = []
        for place, r in enumerate(step.tokens, start=1):
            live = self.live[r]
            self.manager.processed_run(r)
            if live.computed < len(live.tokens):
                continue
            live.tokens.append((sample + live.sampled) % 3)
            live.sampled += 1
            self._hash(live)
            if place == stop or live.sampled >= live.most:
                self._finish(r)
                ended.append(r)
        return ended

    def _report(self) -> tuple[list[str], list[int]]:
        """Report what ended: the loads, then the stores."""
        received: list[str] = []
        last: list[tuple[str, WorkerReport]] = []
        stored: dict[int, None] = {}
        done = [part for part in self._submitted if part.done]
        for part in done:
            self._submitted.remove(part)
            if part.kind == "store":
                stored[part.event] = None
                continue
            for r, number in self._transfers[part.kind, part.event]:
                self.live[r].received += 1
                if self.live[r].received == self._workers:
                    received.append(r)
                    last.append((r, WorkerReport(part.worker, number)))
                else:
                    self._tell(WorkerReport(part.worker, number))
        for r, report in self._in_their_order(last):
            self._ended.append(("load", r, [report.id]))
            self._tell(report)
        for part in done:
            if part.kind == "store":
                ids = [number for _, number in self._transfers["store", part.event]]
                for number in ids:
                    self._tell(WorkerReport(part.worker, number))
                if all(other.event != part.event or other.kind != "store" for other in self._submitted):
                    self._ended.append(("store", part.event, ids))
        for r in received:
            if self.live[r].status == "over":
                self._leave(r)
        return received, list(stored)

    def _tell(self, report: WorkerReport) -> None:
        assert self.manager.report(report), f"{report} was not waited for"

    def _in_their_order(self, last: list[tuple[str, WorkerReport]]) -> list[tuple[str, WorkerReport]]:
        """Order loads that end together as the engine let their host blocks go: it goes through a set of requests."""
        if not 2 <= len(last) <= _ORDERS or self._told is None or self._told.state is None:
            return last
        loads = self.manager.snapshot().loads
        blocks = [[host for host, _ in loads[report.id].pairs] for _, report in last]
        free = [block - 1 for block in self._told.state.pools["host"].free or ()]
        for order in permutations(range(len(last))):
            gone = self._let_go(blocks[n] for n in order)
            if gone == [block for block in free if block in gone]:
                return [last[n] for n in order]
        return last

    def _let_go(self, loads: Iterable[list[int]]) -> list[int]:
        """The host blocks that nobody holds once these loads have ended, in the order in which that happens."""
        held: dict[int, int] = {}
        for block in (block for load in loads for block in load):
            held[block] = held.get(block, self.manager.host.ref_cnt(block)) - 1
            if not held[block]:
                # From here on it stands behind those that were let go before it.
                held[block] = held.pop(block)
        return [block for block, count in held.items() if not count]

    def _preempt(self, r: str) -> None:
        live = self.live[r]
        self.manager.preempt(r)
        live.computed = live.registered = 0
        live.status = "waiting"
        self._running.remove(r)
        self._waiting.insert(0, r)
        self._preempted = True

    def _finish(self, r: str) -> None:
        """A request is over. One whose load is under way keeps its table until that is done."""
        live, manager = self.live[r], self.manager
        loading = live.status == "loading" and live.received < self._workers
        (self._running if r in self._running else self._waiting).remove(r)
        live.status = "over"
        if not loading:
            self._leave(r)
        elif not self._lazy:
            self._one_by_one(live.keys, partial(manager.offer, r, manager.num_positions(r)))

    def _leave(self, r: str) -> None:
        live = self.live.pop(r)
        if self.manager.is_inside(r):
            leave = partial(self.manager.finish, r, abort=True)
            self._one_by_one(live.keys, partial(self._without_pins, r, leave))
        else:
            self.manager.forget(r)

    # ---------------------------------------------------------------------------------------------------- counts

    @property
    def counts(self) -> dict[str, int]:
        """How many requests wait and run, and how many transfers are pending, as the engine counts them."""
        snapshot = self.manager.snapshot()
        flying = {*snapshot.stores, *snapshot.loads}
        pending = len(snapshot.unsent)
        for (kind, _), transfers in self._transfers.items():
            there = sum(number in flying for _, number in transfers)
            pending += min(there, 1) if kind == "store" else there
        return {"waiting": len(self._waiting), "running": len(self._running), "pending": pending}


def _stored_by(step: Step | None) -> list[list[Any]]:
    """The stores that a step of the engine began."""
    copies = [e[3] for e in (step.effects if step is not None else []) if e[0] == "copy" and e[2] == "begin"]
    return [copy for copy in copies if copy[0][0] == "device"]

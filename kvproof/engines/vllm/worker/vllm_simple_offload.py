"""vLLM's `SimpleCPUOffloadScheduler` over its own KV-cache manager, with a small scheduler and model worker of ours.

The scheduler does what the release's does, call by call: it goes on with running requests, preempts the last one for
room, admits waiting ones after a lookup in both tiers, and processes each step before the next. Between two steps the
operations may preempt, abort, look up in vain or reset, as the engine's own callers may. Copies end when an operation
says so; what ended is reported at the end of the next step, as the release's workers do.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import msgspec
from level import Level
from vllm.v1.request import Request, RequestStatus
from vllm_common import Keys, event_effects, hasher, make_request, pool_state, since, tables, world_groups
from vllm_simple_connector import SimpleSide
from vllm_simple_system import System, scheduled
from vllm_transfers import Part, Transfers

__all__ = ["SimpleOffloadLevel"]

TIER = "host"

_PATIENCE = 40
"""Steps of a drain for the requests, and as many for the copies."""


@dataclass
class _Live:
    """A request that the engine knows."""

    request: Request
    most: int
    """Tokens to sample."""
    status: str = "waiting"
    """``waiting``, ``loading``, ``running``, or ``over`` while a load still writes to its blocks."""
    table: list[int] = field(default_factory=list)
    """How many entries the model worker's block table has, per group."""
    seen: bool = False
    """Whether the model worker knows it."""
    received: int = 0
    """How many workers reported its load."""


@dataclass
class _Step:
    """What a step scheduled."""

    new: list = field(default_factory=list)
    cached: list = field(default_factory=list)
    order: list = field(default_factory=list)
    """What the model worker sees of it, in order of scheduling: lookups, and requests with their new blocks."""
    tokens: dict[str, int] = field(default_factory=dict)
    room: int = 0
    """Tokens left in the budget."""


class SimpleOffloadLevel(Level):
    """Both managers, their requests and the copies under way.

    Setup: ``groups``, ``blocks`` and ``host`` (blocks of the two pools, null blocks among them), ``lazy``, ``workers``,
    ``budget`` (tokens of a step), ``max_len``, ``events``.
    """

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self._system = System(setup)
        self._budget: int = setup["budget"]
        self._max_len: int = setup["max_len"]
        self._events: bool = setup["events"]
        self._workers: int = setup["workers"]
        self._keys = Keys()
        self._transfers = Transfers(self, self._workers)
        bound = SimpleNamespace(scheduler_manager=self._system.offload)
        self._side = SimpleSide(bound, [], TIER, self._transfers, {"blocks": setup["host"]})
        self._live: dict[str, _Live] = {}
        self._waiting: list[str] = []
        self._running: list[str] = []
        self._preempted: set[str] = set()
        self._finished: set[str] = set()
        self._submitted: list[tuple[str, int, Part]] = []
        self._ended: list[tuple[str, object]] = []
        self._number = 0
        null = self._system.manager.block_pool.null_block.block_id
        self.world = {
            "groups": world_groups(setup["groups"]),
            "tiers": {"device": {"blocks": setup["blocks"], "null": null}} | self._side.tiers,
            "hash_block": self._system.hash_block,
            "exact": True,
            # What a lookup has to find on the host is known of one group of full attention.
            "notes": {
                "eager": [] if setup["lazy"] else [TIER],
                "loads": [TIER] if [group["kind"] for group in setup["groups"]] == ["full"] else [],
            },
        }

    # ------------------------------------------------------------------------------------------------ operations

    def do(self, op: str, args: dict):
        """Do an operation; what it reported is told behind it."""
        outcome = super().do(op, args)
        self._tell_events()
        return outcome

    def op_add(self, args: dict):
        """A request arrives: ``shared`` tokens of a ``family``, then ``own`` tokens; it samples ``most`` tokens."""
        own = [(args["tail"] + n) % 3 for n in range(args["own"])]
        tokens = [args["family"]] * args["shared"] + own
        most = min(args["most"], self._max_len - len(tokens))
        if not tokens or most < 1:
            return self.SKIPPED
        self._number += 1
        r = args["r"] = f"r{self._number}"
        request = make_request(r, tokens, block_hasher=hasher(self._system.hash_block), max_tokens=most)
        self._live[r] = _Live(request, most, table=[0] * self._system.groups)
        self._waiting.append(r)
        self.tell("request", r, {"adapter": None, "salt": None, "items": [], "tokens": tokens})
        self._keys.announce(self, r, request)
        return None

    def op_step(self, args: dict) -> dict:
        """One step: each request computes at most ``most`` tokens, the one in place ``stop`` (from 1) then stops."""
        step, most = _Step(room=self._budget), max(1, args["most"])  # No scheduler asks for blocks of no tokens.
        preempted = self._go_on(step, most)
        if not preempted:
            self._admit(step, most)
        self._execute(step)
        ended = self._process(step, args["sample"], args["stop"])
        received, stored = self._report()
        return {"tokens": step.tokens, "preempted": preempted, "ended": ended, "loaded": received, "stored": stored}

    def op_work(self, args: dict):
        """Copies of a stream end: the oldest, or all."""
        ended = self._transfers.complete(args["which"], args["all"])
        return self.SKIPPED if ended is None else ended

    def op_probe(self, args: dict):
        """A waiting request is looked up in both tiers, and then there is no room for it."""
        fresh = [r for r in self._waiting if self._is_fresh(r)]
        if not fresh:
            return self.SKIPPED
        r = args["r"] = fresh[args.pop("which") % len(fresh)]
        blocks, local, external = self._lookup(r)
        self._tell_found(r, blocks.get_block_ids(), local)
        return {"local": local, "external": external}

    def op_preempt(self, args: dict):
        """A running request gives up its blocks."""
        if not self._running:
            return self.SKIPPED
        r = args["r"] = self._running[args.pop("which") % len(self._running)]
        self._preempt(r)
        return None

    def op_abort(self, args: dict):
        """A request is aborted, whatever it is doing."""
        alive = [*self._running, *self._waiting]
        if not alive:
            return self.SKIPPED
        r = args["r"] = alive[args.pop("which") % len(alive)]
        self._finish(r, RequestStatus.FINISHED_ABORTED)
        return None

    def op_repeat(self, args: dict):
        """A worker reports again what it has reported: a store that is done, or a load whose request loads no more.

        Releases that cannot reset the host's cache know no stale reports, and their callers make none.
        """
        if not self._system.has_reset:
            return self.SKIPPED
        stale = [(kind, what) for kind, what in self._ended if kind == "store" or not self._is_loading(what)]
        if not stale:
            return self.SKIPPED
        kind, what = stale[args.pop("which") % len(stale)]
        args["of"] = [kind, what]
        self._system.report({what} if kind == "load" else set(), {what: 1} if kind == "store" else {})
        return None

    def op_reset(self, args: dict):
        """Empty the device's cache, and the host's where ``connector`` says so; ``running`` are preempted first."""
        args["connector"] = connector = bool(args.get("connector")) and self._system.has_reset
        if args.get("running"):
            for r in reversed(self._running[:]):
                self._preempt(r)
        return self._system.reset(connector)

    def op_drain(self, _args: dict) -> dict:
        """End all copies and go on until no request is left; after many steps those that are left are aborted.

        Admission is ours here and makes no reservations: requests that take each other's room are not its fault.
        """
        steps = 0
        while (self._live or self._side.pending() or self._transfers.pending()) and steps < 2 * _PATIENCE:
            self._transfers_end()
            if steps == _PATIENCE:
                for r in [*self._running, *self._waiting]:
                    self._finish(r, RequestStatus.FINISHED_ABORTED)
            self.op_step({"most": self._budget, "sample": 0, "stop": 0})
            steps += 1
        pending = max(self._side.pending(), self._transfers.pending())
        return {"left": len(self._live), "pending": pending, "steps": steps}

    def state(self) -> dict:
        """Return the pools of both tiers, the block tables and what else holds blocks."""
        manager = self._system.manager
        pools = {"device": pool_state(manager.block_pool, self._keys)} | self._side.pools(self._keys)
        if not since((0, 30)):
            # These note the hash at a block while it is written; it is registered when the store completes.
            writing = self._system.writing()
            pools[TIER]["hashes"] = [named for named in pools[TIER]["hashes"] if named[0] not in writing]
        return {
            "pools": pools,
            "tables": tables(manager, self._live),
            "holds": self._side.holds(),
            "waiting": len(self._waiting),
            "running": len(self._running),
            "pending": self._side.pending(),
        }

    # ------------------------------------------------------------------------------------------------- scheduling

    def _go_on(self, step: _Step, most: int) -> list[str]:
        """Schedule running requests, and preempt the last ones where there is no room; return those."""
        preempted: list[str] = []
        place = 0
        while place < len(self._running) and step.room:
            r = self._running[place]
            request = self._live[r].request
            tokens = min(request.num_tokens - request.num_computed_tokens, most, step.room)
            new = self._system.manager.allocate_slots(request, tokens)
            while new is None:
                last = self._running[-1]
                self._preempt(last)
                preempted.append(last)
                if last == r:
                    return preempted
                new = self._system.manager.allocate_slots(request, tokens)
            step.cached.append((r, new.get_block_ids(allow_none=True), False))
            self._schedule(step, r, step.cached[-1][1], tokens)
            place += 1
        return preempted

    def _admit(self, step: _Step, most: int) -> None:
        """Schedule waiting requests in their order, for as long as there is room."""
        for r in self._waiting[:]:
            live = self._live[r]
            request = live.request
            if not step.room:
                return
            if live.status == "loading":
                if live.received < self._workers:
                    continue
                self._loaded(live)
            blocks, local, external = None, 0, 0
            if self._is_fresh(r):
                blocks, local, external = self._lookup(r)
                if not external:
                    # Else a found block that the loaded tokens leave behind may be what the load writes to; what is
                    # still needed is read by the forward pass behind the load.
                    step.order.append(("found", r, blocks.get_block_ids(), local))
            computed = request.num_computed_tokens + local + external
            tokens = 0 if external else min(request.num_tokens - computed, most, step.room)
            if not self._system.admit(request, blocks, local, external, tokens):
                return
            request.num_computed_tokens = computed
            if external:
                live.status, live.received = "loading", 0
                continue
            live.status = "running"
            self._waiting.remove(r)
            self._running.append(r)
            whole = self._system.manager.get_block_ids(r)
            if live.seen:
                step.cached.append((r, whole, True))
            else:
                step.new.append((r, whole))
            live.seen, live.table = True, [0] * self._system.groups
            self._schedule(step, r, whole, tokens)

    def _loaded(self, live: _Live) -> None:
        """A load is complete: its blocks may be cached."""
        request = live.request
        self._system.manager.cache_blocks(request, request.num_computed_tokens)
        if request.num_computed_tokens == request.num_tokens:
            request.num_computed_tokens -= 1
        live.status = "waiting"

    def _lookup(self, r: str):
        request = self._live[r].request
        blocks, local, external = self._system.lookup(request)
        self.tell("lookup", r, local, external, request.num_tokens - 1)
        return blocks, local, external

    def _schedule(self, step: _Step, r: str, blocks, tokens: int) -> None:
        step.order.append(("run", r, blocks, tokens))
        step.tokens[r] = tokens
        step.room -= tokens

    def _is_fresh(self, r: str) -> bool:
        live = self._live[r]
        return live.status == "waiting" and not live.request.num_computed_tokens

    def _is_loading(self, r: str) -> bool:
        return r in self._live and self._live[r].status in ("loading", "over")

    # -------------------------------------------------------------------------------------------------- execution

    def _execute(self, step: _Step) -> None:
        """Build the connector's plan, and do the step as the model worker does."""
        copies, held = self._system.block_copies()
        states = self._system.boundary_states()
        output = scheduled(step.new, step.cached, step.tokens, self._preempted, self._finished, states)
        plan = self._plan = self._system.offload.build_connector_meta(output)
        self._preempted, self._finished = set(), set()
        if plan.need_flush:
            self._transfers_end()
        self._submit("load", plan.load_event, TIER, plan.load_cpu_blocks, "device", plan.load_gpu_blocks)
        # Stores wait for the forward pass since 0.24.
        if not since((0, 24)):
            self._submit_stores(plan)
        if copies:
            self.tell("copied", [["device", copy.src_block_id, "device", copy.dst_block_id] for copy in copies])
        for what, r, blocks, tokens in step.order:
            if what == "found":
                self._tell_found(r, blocks, tokens)
            else:
                self._run(r, blocks, tokens)
        if since((0, 24)):
            self._submit_stores(plan)
        self._system.manager.block_pool.free_blocks(held)

    def _submit_stores(self, plan) -> None:
        self._submit("store", plan.store_event, "device", plan.store_gpu_blocks, TIER, plan.store_cpu_blocks)

    def _submit(self, kind: str, event: int, tier: str, sources: list, to: str, destinations: list) -> None:
        """Put a copy on the streams of all workers. As on a device, an event without blocks is never recorded."""
        if not sources:
            return
        pairs = [[tier, a, to, b] for a, b in zip(sources, destinations, strict=True)]
        for worker in range(self._workers):
            part = self._transfers.submit(TIER, kind, worker, event, pairs)
            self._submitted.append((kind, event, part))

    def _transfers_end(self) -> None:
        """All copies end."""
        for _, _, part in self._submitted:
            self._transfers.end(part)

    def _tell_found(self, r: str, blocks, tokens: int) -> None:
        """A lookup finds what is scheduled before it: scheduling a step counts as writing."""
        self.tell("found", r, [list(ids) for ids in blocks], tokens)

    def _run(self, r: str, blocks, tokens: int) -> None:
        """The model worker appends to its block table, and runs the tokens."""
        request, table = self._live[r].request, self._live[r].table
        for g, ids in enumerate(blocks or ()):
            if ids:
                self.tell("table", r, g, table[g], list(ids))
                table[g] += len(ids)
        start = request.num_computed_tokens
        self.tell("compute", r, start, list(request.all_token_ids[start : start + tokens]))
        request.num_computed_tokens += tokens

    # -------------------------------------------------------------------------------------------------- afterwards

    def _process(self, step: _Step, sample: int, stop: int) -> list[str]:
        """Take the sampled tokens; return the requests that are over."""
        ended = []
        for place, r in enumerate(step.tokens, start=1):
            live = self._live[r]
            request = live.request
            self.tell("processed", r, request.num_computed_tokens)
            if request.num_computed_tokens < request.num_tokens:
                continue
            token = (sample + request.num_output_tokens) % 3
            request.append_output_token_ids(token)
            self.tell("append", r, [token])
            self._keys.announce(self, r, request)
            if place == stop or request.num_output_tokens >= live.most:
                self._finish(r, RequestStatus.FINISHED_STOPPED)
                ended.append(r)
        return ended

    def _report(self) -> tuple[list[str], list[int]]:
        """The workers report what ended, and both managers are told."""
        received: list[str] = []
        stored: dict[int, int] = {}
        for item in [item for item in self._submitted if item[2].done]:
            self._submitted.remove(item)
            kind, event, _ = item
            if kind == "store":
                stored[event] = stored.get(event, 0) + 1
                if not any(other[:2] == (kind, event) for other in self._submitted):
                    self._ended.append((kind, event))
                continue
            for r in self._plan.load_event_to_reqs.get(event, ()):
                self._live[r].received += 1
                if self._live[r].received == self._workers:
                    received.append(r)
        if received or stored:
            self._system.report(set(received), stored)
        for r in received:
            self._ended.append(("load", r))
            if self._live[r].status == "over":
                self._free(r)
        return received, list(stored)

    def _preempt(self, r: str) -> None:
        request = self._live[r].request
        self._system.manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        self._live[r].status = "waiting"
        self._running.remove(r)
        self._waiting.insert(0, r)
        self._preempted.add(r)
        self.tell("preempted", r)

    def _finish(self, r: str, status: RequestStatus) -> None:
        live = self._live[r]
        loading = live.status == "loading" and live.received < self._workers
        live.request.status = status
        self._system.finish(live.request)
        self._finished.add(r)
        (self._running if r in self._running else self._waiting).remove(r)
        self.tell("end", r, "aborted" if status == RequestStatus.FINISHED_ABORTED else "finished")
        live.status = "over"
        if not loading:
            self._free(r)

    def _free(self, r: str) -> None:
        self._system.manager.free(self._live.pop(r).request)

    def _tell_events(self) -> None:
        if not self._events:
            return
        event_effects(self, self._keys, self._system.manager.take_events())
        self.tell("boundary", "device")
        event_effects(self, self._keys, map(_without_medium, self._system.offload.take_events()), TIER)
        self.tell("boundary", TIER)


def _without_medium(event):
    """The host's events, of the host whatever medium early releases name."""
    return msgspec.structs.replace(event, medium=None) if hasattr(event, "medium") else event

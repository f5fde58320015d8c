"""The level ``tree`` of SGLang: its unified radix cache, called as its scheduler calls it.

Requests, allocator, rows and tree are the release's, and so are the functions by which a scheduler matches, checks in
and releases. Of the scheduler there is what decides: who is admitted, and when somebody is finished or retracted. A
forward pass is told when it is scheduled, and its result processed by an operation of its own, so that several requests
can be under way at once.
"""

import sglang_calls as calls
import sglang_setup  # noqa: F401 - before anything of the release
import torch
from level import SKIPPED, Level, Refused
from prompts import tokens_of
from sglang.srt.managers.schedule_batch import FINISH_ABORT, FINISH_LENGTH
from sglang.srt.mem_cache.common import evict_from_tree_cache
from sglang_drift import BEFORE_13, core_of, lora_names, made_params, made_recorder, name_adapter, names_of, told_salt
from sglang_kinds import made_tree
from sglang_memory import OPTIONS, Memory
from sglang_reading import Keys, told_of
from sglang_requests import Pass, Played, tenant_of
from sglang_state import shown

__all__ = ["TreeLevel"]

_OPTIONS = OPTIONS | {"policy", "core", "events", "overlap", "tree", "sessions"}
_SESSIONS = 3
"""Sessions that are open at once; who closes one opens another."""

_STEPS = 1000
"""Steps after which a request that is served alone has had more than enough."""


class TreeLevel(Level):
    """A unified radix cache and the requests that it serves.

    ``setup``: what it stands on (`Memory`), the eviction ``policy``, the tree's ``core`` (python or rust), whether it
    tells ``events``, and whether the next pass of a request may be scheduled before the result of the last one is
    processed (``overlap``); which ``tree`` it is (unified; plain: full attention's own; windows: that of windows), and
    whether requests may belong to ``sessions``, whose end gives up what only they had computed.
    """

    def __init__(self, setup: dict) -> None:
        super().__init__()
        unknown = sorted(set(setup) - _OPTIONS)
        if unknown:
            raise Refused(f"there is no tree with {unknown}")
        if setup.get("sessions") and setup.get("policy") != "priority":
            raise Refused("a server with sessions wants the policy priority")
        if setup.get("events") and BEFORE_13 and setup.get("tree", "unified") == "unified":
            raise Refused("the unified tree of this release tells no events")
        self.memory = memory = Memory(setup)
        self.page, self.allocator, self.rows = memory.page, memory.allocator, memory.rows
        self.most = memory.most
        self.lora_names = lora_names()
        core, self.events = setup.get("core", "python"), bool(setup.get("events"))
        params = made_params(
            core,
            self.lora_names,
            req_to_token_pool=self.rows,
            token_to_kv_pool_allocator=self.allocator,
            page_size=self.page,
            eviction_policy=setup.get("policy", "lru"),
            enable_kv_cache_events=self.events,
            tree_components=memory.components,
            sliding_window_size=memory.window or None,
            **({"enable_session_radix_cache": True} if setup.get("sessions") else {}),
        )
        self.cache = made_tree(setup.get("tree", "unified"), memory, params)
        self.older = setup.get("tree", "unified") != "unified"
        self.sessions = list(range(_SESSIONS)) if setup.get("sessions") else []
        if core_of(self.cache) != core:
            raise Refused(f"this release has no tree core {core} here")
        self.keys = Keys(made_recorder(self.events, self.page, self.lora_names), self.page)
        self.cache.take_events()
        self.requests: dict[str, Played] = {}
        self.history: list[list[int]] = []
        self.tenants: dict[tuple, list] = {(None, None): [None, None]}
        self.passes: list[Pass] = []
        self.overlap = bool(setup.get("overlap"))
        memory.watch(lambda pairs: self.tell("copied", pairs))
        # A window is given up under the pass that reads it: whoever gets its slots runs behind that pass.
        notes: dict = {"dialect": {"reuse": "ordered"}} | ({} if self.events else {"keys": "tokens"})
        if calls.CHECKS_IN and not self.older:
            notes |= {"finished": "cached", "order": setup.get("policy", "lru")}
        self.world = memory.world | {"notes": notes}

    def do(self, op: str, args: dict):
        """Do an operation, and tell the events that it caused."""
        result = super().do(op, args)
        if self.events and result is not SKIPPED:
            group = 0 if len(self.memory.components) == 1 else None
            for effect in told_of(self.cache.take_events(), self.keys, group):
                self.tell(*effect)
            self.tell("boundary", "device")
        return result

    def state(self) -> dict:
        """Return the state of tree, allocator and rows."""
        # Who waits may have been given a state already, and has no lock.
        holders = [x for x in self.requests.values() if x.kv.holds_kv or x.kv.holds_mamba]
        held = [(x.r, x.kv, calls.lock_of(x.req) if x.kv.holds_kv else None) for x in holders]
        pools, tables, tree = shown(self.cache, self.memory, self.keys, self._tenant, held)
        return {
            "pools": pools,
            "tables": tables,
            "tree": tree,
            "running": len(tables),
            "waiting": len(self.requests) - len(tables),
            "pending": len(self.passes),
        }

    # ---------------------------------------------------------------------------------------------- operations

    def op_add(self, args: dict):
        """A request arrives, and is admitted if there is room; at most ``most`` tokens of it are computed at once."""
        tokens = tokens_of(args, self.history, self.most)
        r = args["request"] = f"r{len(self.history)}"
        self.history.append(tokens)
        session = self._session(args)
        x = self.requests[r] = Played(r, tokens, tenant_of(args), args.get("priority", 0), session)
        names = names_of(x.req)
        adapter, salt, label = x.tenant
        if adapter is not None:
            name_adapter(self.lora_names, x.req, adapter)
        # What a caller calls a request by parts caches as a salt does.
        self.tenants[names] = [adapter, told_salt(salt, label)]
        told = {"tokens": tokens, "adapter": self.tenants[names][0], "salt": self.tenants[names][1]}
        self.tell("request", r, told)
        self._tell_keys(x, 0)
        return self._admit(x, args.get("most", 0))

    def op_run(self, args: dict):
        """A request takes its next step: it is admitted, its prompt goes on, or it gets ``token``."""
        x = self._picked(args)
        if x is None:
            return SKIPPED
        if x.in_flight and not self._may_overlap(x):
            self.op_process({})
        return self._next(x, args.get("most", 0), args.get("token", 0)) if x.r in self.requests else True

    def op_process(self, _args: dict):
        """The results of what is scheduled are processed, in order: each request gets a token, or is checked in."""
        passes, self.passes = self.passes, []
        for waits, batch in calls.batches_of(passes):
            if waits:
                self.allocator.free_group_begin()
            for done in batch:
                done.x.in_flight -= done.epoch == done.x.epoch
                if done.epoch == done.x.epoch and done.x.r in self.requests:
                    self._processed(done)
            if waits:
                self.allocator.free_group_end()
        return len(passes)

    def op_finish(self, args: dict):
        """The next token of a running request is its last: all that it computed becomes the tree's, and it leaves."""
        x = self._picked(args)
        if x is None or x.status != "running":
            return SKIPPED
        return self._last(x, FINISH_LENGTH(length=1))

    def op_abort(self, args: dict):
        """A request is aborted, whatever it does. One that gets tokens leaves with the next one."""
        x = self._picked(args)
        if x is None:
            return SKIPPED
        if x.status == "running" and not x.prefilling:
            return self._last(x, FINISH_ABORT("aborted"))
        self.op_process({})
        if x.status == "running":
            # In the midst of its prompt it leaves nothing more in the tree.
            x.req.finished_reason = FINISH_ABORT("aborted")
            calls.release(x.req, self.cache, keep=False)
        self._gone(x, "aborted")
        return True

    def op_retract(self, args: dict):
        """A running request gives up all that is its own, and waits. What is in flight for it counts for nothing."""
        x = self._picked(args)
        if x is None or x.status != "running":
            return SKIPPED
        # A loop retracts where one pass is under way, not two; the older trees count on it: a slot has a token there.
        two = self.older and x.in_flight > 1
        if not self.overlap or x.prefilling or two:
            self.op_process({})
        if x.status != "running" or x.r not in self.requests:
            return SKIPPED
        self._retract(x)
        return None

    def op_probe(self, args: dict):
        """A scheduler that orders its queue looks what is cached of a waiting request."""
        x = self._picked(args)
        if x is None or x.status != "waiting":
            return SKIPPED
        most = len(x.tokens) - 1
        found = calls.looked_up(x.req, self.cache, most)
        self.tell("lookup", x.r, found, 0, most)
        return found

    def op_evict(self, args: dict):
        """The tree is asked to give so many tokens back, and so many of its window (``window``) and ``states``."""
        asked = [args["tokens"], *(args.get(kind, 0) for kind in self.memory.further)]
        before = self.memory.available()
        told = self.memory.evict(self.cache, asked)
        freed = [now - then for now, then in zip(self.memory.available(), before, strict=True)]
        return {"asked": asked, "told": told, "freed": freed}

    def op_close(self, args: dict):
        """A session ends: what the tree has of its requests alone is given up."""
        session = self._session(args)
        if session is None:
            return SKIPPED
        # Who goes on after it is another one.
        self.sessions[args["session"] % _SESSIONS] += _SESSIONS
        return self.cache.release_radix_session(session)

    def op_reset(self, _args: dict):
        """The cache is flushed, where nothing runs."""
        if any(x.kv.holds_kv for x in self.requests.values()):
            return False
        self.cache.reset()
        self.rows.clear()
        self.allocator.clear()
        return True

    def op_drain(self, _args: dict):
        """All requests are served to their end, the oldest first; who stands in the way is retracted."""
        steps = 0
        while self.requests and steps < _STEPS:
            self.op_process({})
            steps += 1
            oldest = next(iter(self.requests.values()), None)
            if oldest is None:
                break
            oldest.ending = FINISH_LENGTH(length=1)
            if self._next(oldest, self.memory.chunk, 0) is False:
                others = [x for x in self.requests.values() if x is not oldest and x.status == "running"]
                if not others:
                    break
                self._retract(others[-1])
        return {"left": len(self.requests), "pending": len(self.passes), "steps": steps}

    # ---------------------------------------------------------------------------------------------- one request

    def _picked(self, args: dict) -> Played | None:
        """Return the request that an operation is about, and say in ``args`` which."""
        alive = list(self.requests.values())
        if not alive:
            return None
        x = alive[args["i"] % len(alive)]
        args["request"] = x.r
        return x

    def _session(self, args: dict) -> str | None:
        """Return the session that an operation names, from 1 on; None where it names none, or there are none."""
        if not self.sessions or not args.get("session"):
            return None
        return f"s{self.sessions[args['session'] % _SESSIONS]}"

    def _may_overlap(self, x: Played) -> bool:
        """Whether a next pass may be scheduled while one is in flight: not if that one may bring the last token."""
        return self.overlap and x.in_flight == 1 and x.ending is None and len(x.tokens) < self.most

    def _next(self, x: Played, most: int, token: int) -> bool:
        if x.status == "waiting":
            return self._admit(x, most, token)
        return self._extend(x, most, token) if x.prefilling else self._decode(x, token)

    def _admit(self, x: Played, most: int, token: int = 0) -> bool:
        """Match, lock and extend, if there is room for that."""
        req = x.req
        if not self.rows.available_size():
            return False
        calls.match(req, self.cache)
        found = calls.prefix_len(req)
        self.tell("lookup", x.r, found, 0, len(x.tokens) - 1)
        lock = calls.lock(req, self.cache)
        length = self._chunk(x, most)
        if not self.memory.fits(self.cache, length + self.page if self.page > 1 else length):
            calls.unlock(self.cache, lock)
            self.memory.refused(req)
            return False
        calls.take(req, lock)
        prefix = calls.prefix_of(req, self.cache)
        self.tell("found", x.r, self.memory.found(req, prefix), found)
        x.status = "running"
        calls.allocation.alloc_req_slots(self.rows, [req], self.cache)
        self.rows.write((x.kv.req_pool_idx, slice(0, found)), prefix)
        self._compute_prompt(x, length, prefix, token)
        return True

    def _extend(self, x: Played, most: int, token: int) -> bool:
        """The next chunk of a prompt. The last one is checked in before, if need be while it is computed."""
        if x.in_flight:
            calls.checkpoint(x.req, self.cache, chunked=True)
            self._passes_of(x)[-1].checked_in = True
        calls.refresh(x.req)
        length = self._chunk(x, most)
        if not self.memory.fits(self.cache, length + self.page if self.page > 1 else length):
            return False
        prefix = self.rows.req_to_token[x.kv.req_pool_idx, : calls.prefix_len(x.req)].long()
        self._compute_prompt(x, length, prefix, token)
        return True

    def _chunk(self, x: Played, most: int) -> int:
        """How many tokens are computed next: a chunk that does not end the prompt ends with a page."""
        rest = len(x.req.full_untruncated_fill_ids) - calls.prefix_len(x.req)
        chunk = -(-most // self.page) * self.page
        return min(chunk or rest, rest)

    def _compute_prompt(self, x: Played, length: int, prefix: torch.Tensor, token: int) -> None:
        start = calls.prefix_len(x.req)
        calls.extend_to(x.req, start, start + length)
        if self.page == 1:
            slots = calls.allocation.alloc_token_slots(self.cache, length)
        else:
            before, after = torch.tensor([start]), torch.tensor([start + length])
            last = prefix[-1:] if start else torch.tensor([-1])
            lengths = (before, before, after, after, last, length)
            slots = calls.allocation.alloc_paged_token_slots_extend(self.cache, *lengths)
        self._write(x, start, slots, x.tokens[start : start + length], token)

    def _decode(self, x: Played, token: int) -> bool:
        """The last token that was sampled is computed, which gives the next one."""
        start = x.computed
        last_token = self._passes_of(x)[-1].token if x.in_flight else x.tokens[-1]
        if not self.memory.fits(self.cache, self.page if start % self.page == 0 else 0):
            return False
        batch = self.memory.batch(self.cache, x.req)
        batch.maybe_evict_swa()
        if self.page == 1:
            slots = calls.allocation.alloc_token_slots(self.cache, 1)
        else:
            last = self.rows.req_to_token[x.kv.req_pool_idx, start - 1 : start].long()
            after = torch.tensor([start + 1])
            slots = calls.allocation.alloc_paged_token_slots_decode(self.cache, after, after, last)
        x.req.decode_batch_idx += 1
        self._write(x, start, slots, [last_token], token)
        return True

    def _passes_of(self, x: Played) -> list[Pass]:
        return [done for done in self.passes if done.x is x and done.epoch == x.epoch]

    def _write(self, x: Played, start: int, slots: torch.Tensor, tokens: list[int], token: int) -> None:
        """The slots go to the request's row, and the model worker is asked to compute these tokens."""
        kv, end = x.kv, start + len(tokens)
        self.rows.write((kv.req_pool_idx, slice(start, end)), slots.int())
        kv.kv_allocated_len = kv.kv_committed_len = end
        for g, table in enumerate(self.memory.tables(kv)):
            self.tell("table", x.r, g, 0, table)
        self.memory.start_states(self.cache, x.req)
        if self.memory.states:
            state, group = self.memory.own_states(kv)[0], len(self.memory.components) - 1
            self.tell("state", x.r, group, state if start else None, [[state, end]])
        self.tell("compute", x.r, start, tokens)
        x.in_flight += 1
        self.passes.append(Pass(x, x.epoch, end, token % 3, extends=end == calls.extended_to(x.req)))

    def _processed(self, done: Pass) -> None:
        """The result of a pass: a prompt that is whole gives a token. What extends is checked in."""
        x = done.x
        self.tell("processed", x.r, done.end)
        if done.end < len(x.tokens):
            if not done.checked_in:
                calls.checkpoint(x.req, self.cache, chunked=True)
            return
        x.req.output_ids.append(done.token)
        self.tell("append", x.r, [done.token])
        self._tell_keys(x, (len(x.tokens) - 1) // self.page)
        if x.ending is not None or len(x.tokens) > self.most:
            self._finish(x, x.ending or FINISH_LENGTH(length=1))
        elif done.extends:
            calls.checkpoint(x.req, self.cache, chunked=False)

    def _last(self, x: Played, reason) -> bool:
        """The next token of a request that runs is its last one."""
        if not x.in_flight and self._next(x, 0, 0) is False:
            return False
        x.ending = reason
        self.op_process({})
        return True

    def _finish(self, x: Played, reason) -> None:
        """A request leaves with a token, and with what it computed in the tree."""
        x.req.finished_reason, x.req.finished_len = reason, len(x.req.output_ids)
        calls.release(x.req, self.cache, keep=True)
        self._gone(x, "aborted" if isinstance(reason, FINISH_ABORT) else "finished")

    def _gone(self, x: Played, how: str) -> None:
        del self.requests[x.r]
        self.tell("end", x.r, how)

    def _retract(self, x: Played) -> None:
        calls.release(x.req, self.cache, keep=False)
        evict_from_tree_cache(self.cache, self.page)
        x.req.reset_for_retract()
        x.status, x.in_flight, x.epoch = "waiting", 0, x.epoch + 1
        self.tell("preempted", x.r)

    # ---------------------------------------------------------------------------------------------- telling

    def _tenant(self, names: tuple) -> list:
        return self.tenants.get(names) or [f"unknown {names[0]!r}", f"unknown {names[1]!r}"]

    def _tell_keys(self, x: Played, first: int) -> None:
        keys = self.keys.of(names_of(x.req), x.tokens)[first:]
        if keys:
            self.tell("keys", x.r, first, keys)

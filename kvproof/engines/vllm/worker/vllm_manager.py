"""The level ``manager`` of vLLM: its `KVCacheManager`, called as the release's own scheduler does, and a model worker.

One request is scheduled by one operation; which, and with how many tokens, is the case's choice. The order of the
calls, their arguments and the counts at the requests are the scheduler's. What the model samples is decided when its
forward pass is scheduled and told to the manager when that is processed, which may be some steps later.
"""

from collections import deque

from level import SKIPPED, Level
from prompts import tokens_of
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.request import RequestStatus
from vllm_common import (
    Keys,
    adapter_of,
    event_effects,
    hasher,
    hits_dialect,
    make_request,
    pool_state,
    refusal,
    since,
    tables,
    takes,
    world_groups,
)
from vllm_embeds import EMBEDDED, contents, embedded
from vllm_mamba import MambaStates
from vllm_manager_setup import made_manager, mamba_split, options
from vllm_played import Pass, Played, items_of, name_of, sampled_tokens

__all__ = ["ManagerLevel"]


class ManagerLevel(Level):
    """A KV-cache manager, its requests, and the steps that are scheduled and not processed."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self.setup = what = options(setup)
        self.keys = Keys()
        self.manager, self.block, hash_block = made_manager(what)
        self.pool = self.manager.block_pool
        self.hasher = hasher(hash_block, what.ahead) if what.caching else None
        self.zeroes = getattr(self.manager.kv_cache_config, "needs_kv_cache_zeroing", False)
        self.split = mamba_split(self.manager, what, self.block, hash_block)
        self.mamba = MambaStates(self, what.groups)
        self.lookahead = what.drafts if what.lookahead else 0
        self.requests: list[Played] = []
        self.history: list[list[int]] = []
        self.steps: deque[list[Pass]] = deque()
        self.open: list[Played] | None = None
        self._counts: dict[str, int] = {}
        self.world = {
            "groups": world_groups(what.groups),
            "tiers": {"device": {"blocks": len(self.pool.blocks), "null": self.pool.null_block.block_id}},
            "hash_block": hash_block,
            "exact": True,
            "notes": {
                "scheduler_block": self.block,
                "dialect": hits_dialect(
                    what.groups,
                    eagle=what.eagle and not what.ahead,
                    ahead=what.drafts or what.ahead,
                    on=what.caching,
                    sparse=what.retention is not None,
                    embeds=what.embeds,
                ),
            },
        }

    def do(self, op: str, args: dict):
        """Do an operation; what is not part of the step being scheduled ends that step."""
        if op != "run":
            self._close()
        result = super().do(op, args)
        if self.setup.events and result is not SKIPPED:
            event_effects(self, self.keys, self.manager.take_events(), tokens=not self.setup.embeds)
            self.tell("boundary", "device")
        return result

    def state(self) -> dict:
        """Return the pool's state and the tables of all requests that are not over."""
        alive = self._in("waiting", "running", "loading", "dead")
        return {
            "pools": {"device": pool_state(self.pool, self.keys)},
            "tables": tables(self.manager, [x.r for x in alive]),
            "holds": {},
            "waiting": len(self._in("waiting")),
            "running": len(self._in("running")),
            "pending": len(self._in("loading", "dead")),
        }

    # ------------------------------------------------------------------------------------------------ requests

    def op_add(self, args: dict):
        """A request arrives: its prompt is what is kept of an earlier request's tokens, and runs of equal tokens."""
        tokens = [token % EMBEDDED for token in tokens_of(args, self.history, self.setup.max_len - 1)]
        items = items_of(args.get("items", ()), len(tokens))
        adapter = adapter_of(name_of(args.get("adapter", 0)), args)
        who = {"adapter": adapter, "salt": name_of(args.get("salt", 0)), "items": items}
        r = f"r{len(self.history)}"
        most = 1 + args.get("most", 0)
        given = embedded(args.get("embeds", 0) * self.setup.embeds, len(tokens))
        request = make_request(r, tokens, block_hasher=self.hasher, max_tokens=most, embeds=given, **who)
        tokens = contents(tokens, given)
        x = Played(r, request, len(self.setup.groups), tokens)
        self.requests.append(x)
        self.history.append(x.tokens)
        self.tell("request", r, {**who, "tokens": tokens})
        self.keys.announce(self, r, x.request)
        return r

    def op_finish(self, args: dict):
        """A request is aborted; one that loads gives its blocks back when its load has completed."""
        x = self._pick(args, "waiting", "running", "loading")
        if x is None:
            return SKIPPED
        self._end(x)
        return x.r

    def op_preempt(self, args: dict):
        """A running request gives up its blocks: after its steps are processed, or (`drop`) at once; they are void."""
        x = self._pick(args, "running")
        if x is None:
            return SKIPPED
        while not args.get("drop") and any(each.x is x for step in self.steps for each in step):
            self._process()
        if x.status != "running":
            return None
        self._preempt(x)
        return x.r

    def _preempt(self, x: Played) -> None:
        request = x.request
        self.manager.free(request)
        request.status, request.num_computed_tokens, request.num_output_placeholders = RequestStatus.PREEMPTED, 0, 0
        request.spec_token_ids = []
        request.num_preemptions += 1
        self._reset(x)
        self.tell("preempted", x.r)

    def _reset(self, x: Played) -> None:
        x.status, x.done, x.epoch = "waiting", 0, x.epoch + 1
        x.forget()
        self.mamba.forget(x.r)

    def _end(self, x: Played) -> None:
        loading = x.status == "loading"
        x.status = "dead" if loading else "over"
        self.mamba.forget(x.r)
        self.tell("end", x.r)
        if not loading:
            self.manager.free(x.request)

    # ---------------------------------------------------------------------------------------------- scheduling

    def op_run(self, args: dict):
        """Schedule some tokens of a request, in a step of its own or (`more`) in one with the next."""
        x = self._pick(args, "waiting", "running")
        if x is None or (self.open and x in self.open):
            return SKIPPED
        result = self._run(x, args)
        if not args.get("more"):
            self._close()
        return result

    def _run(self, x: Played, args: dict):
        """Schedule; the result is how many tokens, 0 when there are none to schedule, or false when it is refused."""
        if self.open is None:
            while len(self.steps) >= self.setup.flight:
                self._process()
            if hasattr(self.manager, "new_step_starts"):
                self.manager.new_step_starts()
            self.open = []
            self.steps.append([])
        if x.status == "over":  # The step that was processed to make room was its last.
            return 0
        budget = self.setup.budget - sum(each.tokens for each in self.steps[-1])
        budget = min(budget, args.get("n") or budget)
        result = self._continue(x, budget, args) if x.status == "running" else self._admit(x, budget, args)
        self._count()
        return result

    def _close(self) -> None:
        """End the step that is being scheduled. With one step in flight, its result is there before anything else."""
        self.open = None
        while self.steps and (not self.steps[-1] or self.setup.flight == 1):
            if not self.steps[-1]:
                self.steps.pop()
            else:
                self._process()

    def _continue(self, x: Played, budget: int, args: dict):
        request = x.request
        computed, placeholders = request.num_computed_tokens, request.num_output_placeholders
        # So many are on their way already that no further step is needed, whatever becomes of the drafts.
        if placeholders and computed + 2 - placeholders >= request.num_prompt_tokens + request.max_tokens:
            return 0
        new = request.num_tokens_with_spec + placeholders - computed
        new = min(new, budget, self.setup.max_len - computed - 1)
        new = self.split(request, new) if self.split and new > 0 else new
        if new <= 0:
            return 0
        blocks = self.manager.allocate_slots(request, new, num_lookahead_tokens=self.lookahead)
        if blocks is None:
            self._refused(request, computed + new + self.lookahead)
            return False
        drafts = max(0, new + computed - request.num_tokens - placeholders) if request.spec_token_ids else 0
        request.spec_token_ids = []
        for g, ids in enumerate(blocks.get_block_ids()):
            if ids:
                self.tell("table", x.r, g, len(x.tables[g]), ids)
                x.tables[g] += ids
        self._forward(x, new, drafts, args)
        return new

    def _admit(self, x: Played, budget: int, args: dict):
        request, manager = x.request, self.manager
        blocks, local, external, later, hits = manager.empty_kv_cache_blocks, 0, 0, False, 0
        looks_up = request.num_computed_tokens == 0
        if looks_up:
            blocks, local, *junction = manager.get_computed_blocks(request)
            if junction:
                request.shared_prefix_boundary = junction[0]
            self.tell("lookup", x.r, local, 0, request.num_tokens - 1)
            self.tell("found", x.r, [list(ids) for ids in blocks.get_block_ids()], local)
            hits = local
            blocks, local, external, later = self._external(request, blocks, local, args)
        computed = (request.num_computed_tokens or local) + external
        new = 0 if later else min(request.num_tokens - computed, budget)
        if self.split and not later and new > 0:
            new = self.split(request, new, local, external)
        if new <= 0 and not later:
            return 0
        if not self._allocate(request, new, local, blocks, external, later):
            return False
        if looks_up and hasattr(manager, "record_prefix_cache_stats") and (request.num_preemptions or not x.is_counted):
            x.is_counted = True
            manager.record_prefix_cache_stats(request, hits)
        if later:
            # Whatever was computed outside is computed for good once it is there.
            request.status, request.num_computed_tokens = RequestStatus.WAITING_FOR_REMOTE_KVS, computed
            x.status, x.load = "loading", (local, external)
            self._before_forward()
            return 0
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, computed
        x.status, x.done = "running", computed
        x.tables = [list(ids) for ids in manager.get_block_ids(x.r)]
        for g, table in enumerate(x.tables):
            self.tell("table", x.r, g, 0, list(table))
        self._before_forward()
        if external:
            self._loaded(x, local, external)
        self._forward(x, new, 0, args)
        return new

    def _external(self, request, blocks, local: int, args: dict):
        """What a connector would say: so many more tokens, in whole blocks, or (`later`) all that there are."""
        # Before 0.24 the scheduler takes no tokens from outside for groups with states.
        wanted = args.get("outside", 0) * self.block if self.split is None or since((0, 24)) else 0
        later = bool(args.get("later")) and wanted > 0
        base = local - local % self.block
        # All of a prompt may come from outside; its last token is then computed again. But no state goes back by one.
        most = request.num_tokens - base - int(not later or self.split is not None)
        found = min(wanted, most // self.block * self.block)
        if later and args.get("later", 0) > 1:
            found = most
        if local != base and found > local - base:
            blocks, local = self.manager.truncate_computed_blocks(blocks, base), base
        elif local != base:
            found = 0
        return blocks, local, found, later and found > 0

    def _allocate(self, request, new: int, local: int, blocks, external: int, later: bool) -> bool:
        manager, fit = self.manager, self.setup.fit
        what = {
            "num_new_computed_tokens": local,
            "new_computed_blocks": blocks,
            "num_external_computed_tokens": external,
        }
        gate = getattr(manager, "can_fit_full_sequence", None)
        if fit and gate is not None and not gate(request, **what):
            self._refused(request, request.num_tokens, blocks)
            return False
        optional = {
            "full_sequence_must_fit": fit,
            "has_scheduled_reqs": bool(self._in("running")),
            "skip_zeroing_group_ids": tuple(range(len(self.setup.groups))) if later else (),
        }
        optional = {name: value for name, value in optional.items() if name in takes(KVCacheManager.allocate_slots)}
        lookahead = 0 if later else self.lookahead
        given = manager.allocate_slots(
            request, new, **what, num_lookahead_tokens=lookahead, delay_cache_blocks=later, **optional
        )
        if given is None:
            slots = request.num_computed_tokens + local + external + new + lookahead
            self._refused(request, max(slots, request.num_tokens if fit else 0), blocks)
        return given is not None

    def _refused(self, request, tokens: int, found=None) -> None:
        """Tell that a request got no slots for so many tokens, with these blocks of a lookup."""
        tokens = min(tokens, self.setup.max_len)
        self.tell("refused", *refusal(self.manager, request.request_id, tokens, found), 0)

    # ------------------------------------------------------------------------------------------- forward passes

    def _forward(self, x: Played, new: int, drafts: int, args: dict) -> None:
        """Tell the forward pass, and count as the scheduler does after it has scheduled."""
        request, start, surely = x.request, x.done, new - drafts
        sampled, accepted, tokens = [], 0, x.tokens[start : start + surely]
        if start + surely == len(x.tokens):
            accepted = min(args.get("accept", 0), drafts)
            sampled, run = sampled_tokens(args.get("token", 0), len(x.tokens), accepted, drafts)
            tokens = tokens + run
        if not self.steps[-1]:
            self.tell("batch", "begin")
        self._before_forward()
        self.mamba.before(x.r, x.tables, start, new, drafts, accepted)
        self.tell("compute", x.r, start, tokens)
        x.done = start + surely + accepted
        x.tokens += sampled
        self.steps[-1].append(Pass(x, new, drafts, sampled, accepted))
        self.open.append(x)
        request.num_computed_tokens += new
        if hasattr(request, "num_in_flight_tokens"):
            request.num_in_flight_tokens += new
        more = request.num_computed_tokens < request.num_tokens + request.num_output_placeholders
        if self.setup.asynchronous and not more:
            request.num_output_placeholders += 1 + drafts
            request.spec_token_ids = [-1] * self.setup.drafts

    def _before_forward(self) -> None:
        """New blocks are zeroed where the release does that, then blocks of a partial hit are copied."""
        if hasattr(self.manager, "take_new_block_ids"):
            new = self.manager.take_new_block_ids()
            if new and self.zeroes:
                self.tell("zero", "device", new)
        if hasattr(self.manager, "take_kv_cache_block_copies"):
            copies, held = self.manager.take_kv_cache_block_copies()
            if copies:
                self.tell("copied", [["device", source, "device", target] for source, target in map(_ends, copies)])
                self.pool.free_blocks(held)

    def op_process(self, _args: dict):
        """The result of the oldest step arrives."""
        if not self.steps:
            return SKIPPED
        self._process()
        return None

    def _process(self) -> None:
        self.tell("batch", "end")
        for each in self.steps.popleft():
            self._deliver(each)

    def _deliver(self, each: Pass) -> None:
        x, request = each.x, each.x.request
        if hasattr(request, "num_in_flight_tokens"):
            request.num_in_flight_tokens -= each.tokens
        if x.status == "over" or x.epoch != each.epoch:
            return
        placeholders = request.num_output_placeholders > 0
        rejected = each.drafts - each.accepted if each.sampled else 0
        request.num_computed_tokens -= rejected
        stopped = False
        if each.sampled:
            stopped, kept = self._append(x, each.sampled)
            if placeholders:
                # Early releases leave the placeholders of what a stop cut off.
                resolved = len(each.sampled) if since((0, 33)) else kept
                request.num_output_placeholders -= rejected + resolved
            if since((0, 33)):
                request.num_computed_tokens -= len(each.sampled) - kept
            self._cache_output(request, placeholders)
        self.tell("processed", x.r, request.num_tokens - 1 if each.sampled else each.end)
        if stopped:
            self._end(x)
        elif each.sampled and not self.setup.asynchronous:
            request.spec_token_ids = [0] * self.setup.drafts

    def _append(self, x: Played, sampled: list[int]) -> tuple[bool, int]:
        """Hand the request its tokens, up to its end; return whether that was reached, and how many it took."""
        request, stopped, kept = x.request, False, []
        for token in sampled:
            request.append_output_token_ids(token)
            kept.append(token)
            stopped = request.num_output_tokens >= request.max_tokens or request.num_tokens >= self.setup.max_len
            if stopped:
                break
        self.tell("append", x.r, kept)
        self.keys.announce(self, x.r, request)
        return stopped, len(kept)

    def _cache_output(self, request, placeholders: bool) -> None:
        """What the scheduler caches when output has arrived."""
        if since((0, 33)):
            if placeholders or self.setup.drafts:
                self.manager.cache_blocks(request, request.num_computed_tokens - request.num_in_flight_tokens)
        elif self.setup.asynchronous:
            self.manager.cache_blocks(request, request.num_computed_tokens - request.num_output_placeholders)

    # ---------------------------------------------------------------------------------------------------- loads

    def op_load_done(self, args: dict):
        """A load from outside completes."""
        x = self._pick(args, "loading", "dead")
        if x is None:
            return SKIPPED
        self._load_done(x)
        return x.r

    def _load_done(self, x: Played) -> None:
        request = x.request
        x.tables = [list(ids) for ids in self.manager.get_block_ids(x.r)]
        self._loaded(x, *x.load)
        if x.status == "dead":
            x.status = "over"
            self.manager.free(request)
            return
        self.manager.cache_blocks(request, request.num_computed_tokens)
        request.num_computed_tokens = min(request.num_computed_tokens, request.num_tokens - 1)
        request.status = RequestStatus.PREEMPTED if request.num_preemptions else RequestStatus.WAITING
        x.status, x.done = "waiting", request.num_computed_tokens

    def _loaded(self, x: Played, local: int, external: int) -> None:
        """Tell where the KV of the tokens behind the local ones was put."""
        end, null = local + external, self.pool.null_block.block_id
        for g, group in enumerate(self.setup.groups):
            size, table, places = group["block"], x.tables[g], []
            if group["kind"] == "mamba":
                places = [["device", table[(end - 1) // size], local, external]]
            else:
                for entry in range(local // size, -(-end // size)):
                    first = max(local, entry * size)
                    if entry < len(table) and table[entry] != null:
                        places.append(["device", table[entry], first, min(end, (entry + 1) * size) - first])
            self.tell("computed_outside", x.r, g, places)

    # ------------------------------------------------------------------------------------------------- the cache

    def op_evict(self, args: dict):
        """Blocks leave the prefix cache."""
        blocks = {1 + block % (len(self.pool.blocks) - 1) for block in args["blocks"]}
        self.manager.evict_blocks(blocks)
        return sorted(blocks)

    def op_reset(self, _args: dict):
        """The prefix cache is to be emptied."""
        return self.manager.reset_prefix_cache()

    def op_drain(self, _args: dict):
        """Complete everything as a scheduler does: first come, first served; short of blocks, the last is preempted."""
        for x in self._in("loading", "dead"):
            self._load_done(x)
        patience = self.setup.max_len + 4
        rounds, last, left = 0, 0, len(self._in("waiting", "running"))
        while left and rounds - last < 2 * patience:
            rounds += 1
            self._round()
            still = len(self._in("waiting", "running"))
            if still < left:
                left, last = still, rounds
            elif rounds - last == patience:
                # A loaded request may hold what another one waits for: that is for its scheduler to prevent.
                for x in self._in("waiting"):
                    self._give_back(x)
        return {"left": left, "pending": 0, "steps": rounds}

    def _round(self) -> None:
        """Schedule all that can be, and process it."""
        everything, short = {"accept": self.setup.drafts}, False
        for x in self._in("running"):
            while x.status == "running" and self._step(x, everything) is False:
                short = True
                self._preempt_last()
        for x in [] if short else self._in("waiting"):
            if self._step(x, everything) is False:
                break
        while self.steps:
            self._process()

    def _step(self, x: Played, args: dict):
        """Schedule a request in a step of its own."""
        result = self._run(x, args)
        self._close()
        return result

    def _preempt_last(self) -> None:
        last = self._in("running")[-1]
        while any(each.x is last for step in self.steps for each in step):
            self._process()
        if last.status == "running":
            self._preempt(last)

    def _give_back(self, x: Played) -> None:
        # One that was loaded whole, and has one token, has computed nothing and holds a block all the same.
        if x.request.num_computed_tokens or any(self.manager.get_block_ids(x.r)):
            self.manager.free(x.request)
            x.request.num_computed_tokens = 0
            self._reset(x)

    # --------------------------------------------------------------------------------------------------- picking

    def _in(self, *status: str) -> list[Played]:
        return [x for x in self.requests if x.status in status]

    def _pick(self, args: dict, *status: str) -> Played | None:
        """The request that the arguments pick; they will say which one that was."""
        found = self._in(*status)
        if not found:
            return None
        x = found[args.get("i", 0) % len(found)]
        args["r"] = x.r
        return x

    def _count(self) -> None:
        """Tell the manager's own counters where they changed."""
        stats = self.manager.prefix_cache_stats
        names = ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits")
        counts = {name: getattr(stats, name) for name in names}
        if counts != self._counts:
            self._counts = counts
            self.tell("counts", counts)


def _ends(copy) -> tuple[int, int]:
    return copy.src_block_id, copy.dst_block_id

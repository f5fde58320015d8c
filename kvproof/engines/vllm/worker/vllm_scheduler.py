"""The level ``scheduler`` of vLLM: its scheduler, stepped by its own engine core, with a model worker that we play.

``setup`` is `vllm_core.Options`. Operations may come in any order: those that the engine core would not do now are
skipped. A step is one call of the engine core's step function: with more than one step in flight it schedules the
next one before the oldest is processed, as the release does.
"""

import functools
import json

from level import SKIPPED, Level, Refused
from vllm_answers import Answers
from vllm_common import VERSION, Keys, adapter_of, event_effects, hits_dialect, make_request, pool_state, since, tables
from vllm_core import engine_core, world
from vllm_embeds import contents, embedded
from vllm_model import Plan, Runner
from vllm_reading import deferred
from vllm_sessions import Said, Sessions
from vllm_settings import HISPARSE, Options

try:
    from vllm.v1.core.sched.interface import PauseState
except ImportError:  # Before 0.17 there are no pauses.
    PauseState = None

__all__ = ["SchedulerLevel"]

NAMES = (None, "a", "b")
"""One alphabet for adapters, salts and items: a key that mixes them up shall be found out."""
ITEMS = {"a": 2, "b": 3}
"""Multimodal items, and how many tokens each takes."""
PLACEHOLDER = 3
"""The token that stands where an item is: no text has it."""
_STOPS = (2,)
"""The tokens that end a request which asks for that."""
ASKED = ("remote", "later", "send")
_CAPS = {"max_load_tokens": (0, 31), "max_offload_tokens": (0, 25), "load_tiers": (0, 27)}
"""What may be asked of an offloading connector, and since when."""
_LOAD_TIERS = ([], [{"medium": "CPU"}], [{"medium": "STORAGE"}])
"""The tiers below the host that may be asked for a request: none; those of memory; those that keep files."""
MAX_STEPS = 400
"""A drain gives up after so many steps; nothing that a case asks for takes a tenth of it."""
IDLE_STEPS = 6
"""A drain gives up when so many steps in a row did nothing."""


class SchedulerLevel(Level):
    """A scheduler, a queue of batches, a model worker, and what a client of the engine sees of its requests."""

    def __init__(self, setup: dict, known: bool = False) -> None:
        super().__init__()
        options = Options.of(setup)
        sparse = bool(options.connector) and json.loads(options.connector)["kind"] == HISPARSE
        if not known and (problem := _driver_problem() or (_driver_problem(sparse) if sparse else None)):
            raise Refused(problem)
        planned = world(options)
        self._options = options
        self._runner = Runner(self, options, planned.groups)
        self._core = engine_core(options, planned, self._runner)
        self._scheduler = self._core.scheduler
        self._manager = self._scheduler.kv_cache_manager
        self._pool = self._manager.block_pool
        self._keys = Keys()
        self._requests: dict[str, object] = {}
        self._alive: list[str] = []
        self._late: list[str] = []
        """Aborts that arrived during a step: the engine core sees them twice."""
        self._totals: dict[str, int] = {}
        self._heard = False
        """Whether the events up to now were taken."""
        tiers = {"device": {"blocks": planned.kv_cache.num_blocks, "null": self._pool.null_block.block_id}}
        self._connector = self._made_connector(tiers)
        self._runner.attach(self._scheduler, self._connector)
        self._sessions = Sessions(self, self._core, self._keys, self._runner, planned.hash_block)
        self._answers = Answers(self, options.max_len)
        self._observe()
        self.world = {
            "groups": planned.groups,
            "tiers": tiers,
            "hash_block": planned.hash_block,
            "exact": self._connector is None or getattr(self._connector, "exact", False),
            "notes": {
                "block": planned.block,
                "in_flight": self._core.batch_queue_size,
                "longest": options.max_len,
                **({"encodings": options.encoder} if options.encoder else {}),
                "sampled": "processed",
                "dialect": hits_dialect(
                    planned.groups,
                    on=options.caching,
                    eagle=_drops(self._scheduler),
                    ahead=options.spec,
                    # A request that was scheduled may be preempted in the same step; a connector's loads take blocks.
                    unseen=options.priority or self._connector is not None,
                    sparse=_keeps_windows_in_part(self._scheduler),
                    embeds=bool(options.embeds),
                ),
                **(self._connector.notes if self._connector is not None else {}),
            },
        }

    # Operations

    def op_add(self, args: dict):
        """Add a request.

        ``tokens``, ``max_tokens``, ``min`` (it is to have so many at least), ``stop`` (token 2 ends it), ``priority``,
        ``adapter``, ``moved`` (another one was loaded under its name), ``salt``, ``items`` (multimodal: offset and
        which), ``embeds`` (which positions are embeddings, as `embedded`), ``skip`` (reads no prefix cache);
        ``session``: more is said in it later (`op_say`), of tokens alone; ``remote``, ``later``, ``send``: what is
        asked of a remote connector; ``max_load_tokens``, ``max_offload_tokens``, ``load_tiers``: of an offloading one
        that is alone.
        """
        prompt = args["tokens"][: self._options.max_len - 1] or [0]
        r = f"r{len(self._requests)}"
        named = NAMES[args.get("adapter", 0) % len(NAMES)] if self._options.adapters else None
        adapter = adapter_of(named, args)
        salt = NAMES[args.get("salt", 0) % len(NAMES)]
        items = self._items(args.get("items", ()), len(prompt))
        prompt = _with_items(prompt, items)
        given = embedded(args.get("embeds", 0) if self._options.embeds and not args.get("session") else 0, len(prompt))
        most = max(1, args.get("max_tokens", 1))
        request = make_request(
            r,
            prompt,
            block_hasher=self._core.request_block_hasher,
            max_tokens=most,
            min_tokens=min(args.get("min", 0), most),
            adapter=adapter,
            salt=salt,
            items=items,
            priority=args.get("priority", 0) if self._options.priority else 0,
            arrival=float(len(self._requests)),
            goes_on=bool(args.get("session")),
            extra={"kv_transfer_params": asked} if (asked := self._asked(args)) else None,
            embeds=given,
        )
        if args.get("stop"):
            request.sampling_params.stop_token_ids = list(_STOPS)
        if args.get("skip") and hasattr(request, "skip_reading_prefix_cache"):
            request.skip_reading_prefix_cache = True
        self._requests[r] = request
        self._alive.append(r)
        args["request"] = r
        told = {"adapter": adapter, "salt": salt, "items": items, "tokens": contents(prompt, given)}
        if (stored := asked.get("max_offload_tokens")) is not None:
            told["stored"] = stored
        skips = {"skip": True} if getattr(request, "skip_reading_prefix_cache", False) else {}
        self.tell("request", r, {**told, **skips})
        self._keys.announce(self, r, request)
        if args.get("session"):
            self._sessions.begin(r, prompt, most)
        else:
            self._answers.begin(r, told["tokens"], most, _STOPS if args.get("stop") else ())
        self._core.add_request(request)
        return r

    def op_say(self, args: dict):
        """Say more in a session that is open, the one that ``pick`` picks.

        ``tokens``, as many as fit (``past``: all of them, by a client who does not count), ``items`` among them,
        ``max_tokens`` and ``stop`` of the answer; or ``close`` it: it ends with what it is at.
        """
        if not self._sessions.open:
            return SKIPPED
        args["request"] = r = self._sessions.open[args.get("pick", 0) % len(self._sessions.open)]
        if args.get("close"):
            self._close(r)
            return r
        room = self._options.max_len - 1 - self._sessions.length(r)
        tokens = args["tokens"] if args.get("past") else args["tokens"][: max(0, room)]
        if not tokens:
            return SKIPPED
        args["tokens"] = tokens
        items = self._items(args.get("items", ()), len(tokens))
        most, stops = max(1, args.get("max_tokens", 1)), _STOPS if args.get("stop") else ()
        self._sessions.say(r, Said(_with_items(tokens, items), items, most, stops))
        return r

    def _asked(self, args: dict) -> dict:
        """What a request asks of the connector, of what this one and this release know."""
        kind = json.loads(self._options.connector)["kind"] if self._options.connector else None
        caps = {n: args[n] for n, first in _CAPS.items() if n in args and kind == "offloading" and since(first)}
        if (tiers := caps.pop("load_tiers", None)) is not None:
            caps["kv_load_tiers"] = _LOAD_TIERS[tiers % len(_LOAD_TIERS)]
        return {n: args[n] for n in ASKED if args.get(n)} | caps

    def _close(self, r: str) -> None:
        if self._sessions.close(r):
            self._end(r, "finished")

    def _items(self, asked, length: int) -> list[list]:
        """The multimodal items that fit into a prompt, one behind the other, of those asked for: offset and which."""
        found: list[list] = []
        for offset, which in sorted(asked) if self._options.encoder >= max(ITEMS.values()) else ():
            name = NAMES[1 + which % 2]
            behind = found[-1][0] + found[-1][1] if found else 0
            if behind <= offset and offset + ITEMS[name] <= length:
                found.append([offset, ITEMS[name], name])
        return found

    def op_step(self, args: dict):
        """One step of the engine: ``token``, ``accept``, ``fewer``, ``ready`` (`Plan`), ``abort``: the request that is
        aborted while the model runs (counted from 1)."""
        if not self._has_work():
            return SKIPPED
        late = args.get("abort")
        if late and self._alive:
            r = self._alive[(late - 1) % len(self._alive)]
            args["aborted"] = r
            self._core.aborts_queue.put([r])
            self._late.append(r)
        plan = Plan(args.get("token", 0), args.get("accept", 0), args.get("fewer", 0), bool(args.get("ready")))
        done = self._step(plan)
        self._tell_boundary()
        return done

    def op_abort(self, args: dict):
        """Abort a request that is not over, wherever it is."""
        if not self._alive:
            return SKIPPED
        args["request"] = r = self._alive[args.get("pick", 0) % len(self._alive)]
        self._core.abort_requests([r])
        self._runner.flush_notes()
        return r

    def op_complete(self, args: dict):
        """End a transfer of the connector, as `ModelConnector.complete`."""
        if self._connector is None:
            return SKIPPED
        done = self._connector.complete(args.get("pick", 0), args.get("how", 0))
        return done if done else SKIPPED

    def op_reset(self, args: dict):
        """Empty the prefix caches, with ``running`` requests preempted, with the ``connector``'s cache.

        Who asks for that need not know whether there is a connector: without one there is nothing more to empty.
        """
        running = bool(args.get("running"))
        connector = bool(args.get("connector")) and (self._connector is None or self._connector.resets)
        args["connector"] = int(connector)
        try:
            answer = self._core.reset_prefix_cache(running, connector)
        except RuntimeError as error:
            # So it says that loads are under way; the engine goes on.
            if not running or "Failed to reset KV cache" not in str(error):
                raise
            answer = False
        self._runner.flush_notes()
        self._heard = False
        return bool(answer)

    def op_pause(self, args: dict):
        """Pause: nothing more is scheduled, or (``wait``) no more requests are admitted; what comes is queued."""
        if PauseState is None or self._scheduler.pause_state != PauseState.UNPAUSED:
            return SKIPPED
        self._scheduler.set_pause_state(PauseState.PAUSED_NEW if args.get("wait") else PauseState.PAUSED_ALL)
        return True

    def op_resume(self, _args: dict):
        """Go on after a pause."""
        if PauseState is None or self._scheduler.pause_state == PauseState.UNPAUSED:
            return SKIPPED
        self._scheduler.set_pause_state(PauseState.UNPAUSED)
        return True

    def op_drain(self, _args: dict):
        """Resume, close all sessions, complete all transfers, and step until nothing is left to do, or nothing happens
        any more but that blocks are moved in circles."""
        self.op_resume({})
        for r in [*self._sessions.open]:
            self._close(r)
        movable = sum(tier.get("blocks", 0) for tier in self.world["tiers"].values())
        steps = idle = moves = 0
        while (self._has_work() or self._pending()) and steps < MAX_STEPS and idle < IDLE_STEPS and moves <= movable:
            moved = self._complete_all()
            runs = self._has_work()
            computed = runs and self._step(Plan())["tokens"] > 0
            waits = runs and self._connector is not None and self._connector.waits()
            steps += 1
            idle = 0 if moved or computed or waits else idle + 1
            moves = 0 if computed else moves + moved  # More of these in a row than blocks: one was moved twice.
        self._tell_boundary()
        kept = self._connector.kept(self._alive) if self._connector is not None else 0
        return {
            "left": len(self._alive),
            "pending": self._pending(),
            "steps": steps,
            **({"kept": kept} if kept else {}),
        }

    # A step

    def do(self, op: str, args: dict):
        """Do an operation; an abort that came in during the last step comes first, as from the engine core's queue."""
        late, self._late = self._late, []
        if late:
            self._core.abort_requests(late)
        return super().do(op, args)

    def _has_work(self) -> bool:
        """What the engine core's loop asks before it steps."""
        return bool(self._scheduler.has_requests() or self._core.batch_queue)

    def _step(self, plan: Plan) -> dict:
        self._runner.plan = plan
        before = self._runner.tokens
        _outputs, executed = self._core.step_fn()
        self._core.post_step(executed)
        return {"tokens": self._runner.tokens - before}

    def _pending(self) -> int:
        return self._connector.pending() if self._connector is not None else 0

    def _complete_all(self) -> bool:
        done = False
        while self._connector is not None and self._connector.complete(0, 1):
            done = True
        return done

    def _tell_boundary(self) -> None:
        for tier in ("device", *self._told_beside()) if self._options.events and self._heard else ():
            self.tell("boundary", tier)

    def _told_beside(self) -> tuple[str, ...]:
        """The tiers of which the device's queue of events tells too."""
        return getattr(self._connector, "told_beside", ())

    # What the engine tells its callers

    def _observe(self) -> None:
        """Listen where results, aborts and KV events pass."""
        scheduler, core = self._scheduler, self._core
        self._schedule, scheduler.schedule = scheduler.schedule, self._schedules
        self._update, scheduler.update_from_output = scheduler.update_from_output, self._updates
        self._abort, core.abort_requests = core.abort_requests, self._aborts
        self._events, self._manager.take_events = self._manager.take_events, self._take_events

    def _take_events(self):
        """The KV events of a step; those of a connector are taken elsewhere."""
        events = self._events()
        event_effects(self, self._keys, events, tokens=not self._options.embeds, also=self._told_beside())
        return events

    def _schedules(self, *args):
        self._heard = False
        scheduled = self._schedule(*args)
        self._sessions.scheduled()
        return scheduled

    def _updates(self, scheduled, output):
        """The result of the oldest step: what is computed for good, what was sampled, who is done."""
        told = len(self._effects)
        answer = self._update(scheduled, output)
        events, self._effects[told:] = self._effects[told:], []
        self._runner.processed(self._requests)
        for outputs in answer.values():
            for each in outputs.outputs:
                self._tell_output(each)
            if outputs.scheduler_stats is not None:
                self._tell_counts(outputs.scheduler_stats)
        self._effects += events
        self._heard = True
        return answer

    def _tell_output(self, output) -> None:
        r = output.request_id
        self._answers.take(output)
        if output.new_token_ids:
            self.tell("append", r, list(output.new_token_ids))
            self._sessions.grew(r, list(output.new_token_ids))
        is_over = output.finish_reason is not None and not self._sessions.answered(r)
        self._keys.announce(self, r, self._requests[r])
        if is_over:
            how = str(output.finish_reason)
            self._answers.end(r, whole=how in ("stop", "length"))
            self._end(r, "aborted" if how == "abort" else "finished")

    def _aborts(self, request_ids) -> None:
        alive = [r for r in request_ids if r in self._alive]
        self._abort(request_ids)
        for r in alive:
            self._end(r, "aborted")

    def _end(self, r: str, how: str) -> None:
        self._alive.remove(r)
        self._sessions.end(r)
        self._runner.forget(r)
        self.tell("end", r, how)

    def _tell_counts(self, stats) -> None:
        changed = {}
        for tier, of_tier in (("", stats.prefix_cache_stats), ("external_", stats.connector_prefix_cache_stats)):
            # That it counts at all is told before there is anything to count. Without prefix caching it does not.
            counts = tier or self._options.caching
            for name in ("requests", "queries", "hits") if of_tier is not None else ():
                if (value := getattr(of_tier, name)) or (counts and tier + name not in self._totals):
                    changed[tier + name] = self._total(tier + name, value)
        for source, value in getattr(stats.connector_prefix_cache_stats, "hits_by_source", {}).items():
            name = f"external_hits_from_{source.value}"
            changed[name] = self._total(name, value)
        if changed:
            self.tell("counts", changed)

    def _total(self, name: str, more: int) -> int:
        """Count so many more of this, and return how many there are."""
        self._totals[name] = self._totals.get(name, 0) + more
        return self._totals[name]

    # State

    def state(self) -> dict:
        """Return pools, block tables and what else is held."""
        pools, holds = self._connector.state() if self._connector is not None else ({}, {})
        holds["device"] = [*holds.get("device", ()), *deferred(self._scheduler, self._pool)]
        running, waiting = self._scheduler.get_request_counts()
        held = tables(self._manager, self._scheduler.requests)
        return {
            "pools": {"device": pool_state(self._pool, self._keys), **pools},
            "tables": {r: table for r, table in self._runner.tables.shown(held).items() if any(table)},
            "holds": {tier: sorted(blocks) for tier, blocks in holds.items()},
            "waiting": waiting,
            "running": running,
            "pending": self._pending(),
        }

    def _made_connector(self, tiers: dict):
        if not self._options.connector:
            return None
        from vllm_connectors import ModelConnector
        from vllm_sparse import SparseConnector

        setup = json.loads(self._options.connector)
        if setup["kind"] == HISPARSE:
            connector = SparseConnector(self, self._scheduler, setup, self._keys)
        else:
            connector = ModelConnector(self, self._scheduler, setup, self._keys, self._options.runner)
        tiers.update(connector.tiers)
        return connector


def _with_items(tokens: list[int], items: list[list]) -> list[int]:
    """Return the tokens with placeholders where the items stand."""
    found = list(tokens)
    for offset, length, _ in items:
        found[offset : offset + length] = [PLACEHOLDER] * length
    return found


def _drops(scheduler) -> bool:
    """Return whether lookups give up the end of what they find; before there was an option, with each such drafter."""
    return bool(getattr(scheduler, "use_eagle_block_drop", scheduler.use_eagle))


def _keeps_windows_in_part(scheduler) -> bool:
    """Return whether a retention interval says which windows are kept; releases that have none keep all."""
    return getattr(scheduler.kv_cache_config, "prefix_cache_retention_interval", None) is not None


@functools.cache
def _driver_problem(sparse: bool = False) -> str | None:
    """Play a simple case once: a release whose engine core asks for what this driver does not know is refused.

    ``sparse``: with HiSparse, of which the driver knows more.

    Raises
    ------
    Refused
        The release has none.
    """
    more = {"connector": {"kind": HISPARSE}} if sparse else {}
    for asynchronous in (False, True):
        try:
            setup = {"groups": [{"kind": "full", "block": 4}], "asynchronous": asynchronous, **more}
            level = SchedulerLevel(setup, known=True)
            level.op_add({"tokens": [0, 1, 2, 0, 1], "max_tokens": 2})
            left = level.op_drain({})["left"]
            told = {effect[0] for effect in level.take_effects()}
            level.state()
        except (AttributeError, KeyError, TypeError) as error:
            return f"vLLM {VERSION}: its engine core is not as this driver knows it: {type(error).__name__}: {error}"
        if left or not {"table", "lookup", "compute", "processed", "append", "end", "counts"} <= told:
            return f"vLLM {VERSION}: its engine core is not as this driver knows it: it told {sorted(told)}"
    return None

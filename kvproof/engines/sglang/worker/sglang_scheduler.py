"""The level ``scheduler`` of SGLang: the release's own `Scheduler`, one round of its own event loop after the other.

All that decides is the release's: admission, chunks, mixing, retraction, preemption by priority, aborts, pauses, what
is released and checked in, and its own check of its books whenever it idles. The forward pass is not computed: what it
would read and write is told when it is launched, from the rows and slots of the batch that the model worker gets, and
what it samples is given.
"""

from array import array
from typing import ClassVar

import sglang_setup  # noqa: F401 - before anything of the release
from level import SKIPPED, Level, Refused
from prompts import tokens_of
from sglang.srt.managers import io_struct as messages
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang_calls import lock_of
from sglang_clients import Client, Conversation
from sglang_drafts import DRAFTERS, Drafting
from sglang_drafts import fields as drafting
from sglang_drift import made_recorder
from sglang_model import EOS, Model, Outbox
from sglang_reading import Keys, told_of
from sglang_requests import tenant_of
from sglang_served import Served, configure
from sglang_state import shown

__all__ = ["SchedulerLevel"]

_CONTEXT = 96
"""Tokens of the model's longest text."""
_STEPS = 400
"""Rounds after which everything has had more than enough time."""

_USUAL = {
    "sort": False, "events": False, "overlap": False, "chunk": 0, "mixed": False, "order": "fcfs", "priority": False,
    "threshold": 0, "rows": 8, "budget": 64, "policy": "lru", "queue": None, "most": None, "interval": 0,
    "conservative": 1.0, "core": "python", "window": 0, "window_pages": None, "window_interval": 1, "release": False,
    "states": 0, "drafts": 0, "drafter": "ngram",
}  # fmt: skip
"""Options of a setup, beside ``page`` and ``pages``."""


class Options:
    """What a setup asks for."""

    host = None
    """What gives a tree its host tier (`sglang_host.attach`), where there is one."""

    def __init__(self, setup: dict) -> None:
        unknown = sorted(set(setup) - set(_USUAL) - {"page", "pages"})
        if unknown:
            raise Refused(f"there is no scheduler with {unknown}")
        for name, value in (_USUAL | setup).items():
            setattr(self, name, value)
        self.context = _CONTEXT
        if self.page < 1 or self.page * self.pages < 8 or self.rows < 1:
            raise Refused("a request of one token has no room beside what the release keeps free")
        if self.chunk and self.chunk % self.page:
            raise Refused("a chunk is whole pages")
        if self.mixed and not self.chunk:
            raise Refused("only chunks are mixed with decoding")
        self.window_pages = self.window_pages or self.pages
        if self.window and not self.window + self.page < self.window_pages * self.page <= self.pages * self.page:
            raise Refused("the window's pool is larger than a window and a page, and no larger than the other")
        if self.drafter not in DRAFTERS or (self.drafts and self.drafts < 2):
            raise Refused("a pass verifies the last token and a draft at least, of a drafter that there is")
        if self.drafts and self.mixed and self.drafter == "ngram":
            raise Refused("a server that drafts by n-grams mixes no prompts with decoding")
        if self.drafts and self.states:
            raise Refused("states are not driven with drafts")
        if self.states and self.overlap:
            raise Refused("states without a second buffer are for passes that do not overlap")

    @property
    def memory(self) -> dict:
        """What allocators and rows are made of (`Memory`)."""
        named = {
            name: getattr(self, name)
            for name in ("page", "pages", "sort", "window", "window_pages", "release", "states")
        }
        return named | {"interval": self.window_interval, "pairs": bool(self.drafts) and self.drafter == "eagle"}

    @property
    def fields(self) -> dict:
        """What of it is the release's configuration."""
        return {
            "page_size": self.page,
            "skip_tokenizer_init": True,
            "enable_streaming_session": True,
            "chunked_prefill_size": self.chunk or -1,
            "enable_mixed_chunk": self.mixed,
            "disable_overlap_schedule": not self.overlap,
            "schedule_policy": self.order,
            "enable_priority_scheduling": self.priority,
            "priority_scheduling_preemption_threshold": self.threshold,
            "max_prefill_tokens": self.budget,
            "max_queued_requests": self.queue,
            "prefill_max_requests": self.most,
            "prefill_decode_interval": self.interval,
            "schedule_conservativeness": self.conservative,
            "radix_eviction_policy": self.policy,
            "pp_max_micro_batch_size": self.rows,
            "hicache_storage_backend": None,
            "hicache_storage_backend_extra_config": None,
            **drafting(self.drafts, self.drafter),
        }


class SchedulerLevel(Level):
    """A scheduler, and the clients that it serves.

    ``setup``: ``page`` tokens per page, ``pages``; see `_USUAL` for the rest, by the names of `Options.configure`.
    """

    options: ClassVar = Options

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self.asked = options = self.options(setup)
        configure(**options.fields)
        self.page, self.events = options.page, options.events
        self.priority = options.priority
        self.most = min(options.page * options.pages, options.context) - 6
        """Tokens of a prompt; one with as many is the shortest that the release refuses."""
        self.clients: dict[str, Client] = {}
        """Whoever has sent a request, until it is over and holds nothing."""
        self.conversations: dict[str, Conversation] = {}
        self.opened = 0
        self.history: list[list[int]] = []
        self.tenants: dict[tuple, list[str | None]] = {(None, None): [None, None]}
        self.tokens: list[int] = [0]
        self.model = (Drafting if options.drafts else Model)(self.tell, self._sampled, _CONTEXT)
        self.model.drafts, self.model.drafter = options.drafts, options.drafter
        self.outbox = Outbox()
        self.served = Served(options, self.model, self.outbox, self)
        self.model.memory = self.memory = self.served.memory
        self.model.host = self.served.host
        self.memory.watch(lambda pairs: self.tell("copied", pairs))
        recorder = made_recorder(self.events, self.page, self.served.kv_event_lora_names)
        self.keys = Keys(recorder, self.page, self.memory.pairs)
        # A window is given up under the pass that reads it: whoever gets its slots runs behind that pass.
        ordered = {"reuse": "ordered"} if options.window else {}
        notes = {"dialect": {**ordered, "leaves": self.memory.left}}
        notes |= {"sampled": "processed"} | ({} if self.events else {"keys": "tokens"})
        # Of a drafter with layers of its own how much fills a page is another matter.
        notes |= {} if self.memory.pairs else {"finished": "cached"}
        self.world = self.memory.world | {"notes": notes}
        self.own_tiers = ("device",)
        """Those whose entries the release's events are about."""
        if self.served.host is not None:
            self.own_tiers = ("device", "host")
            self.world["tiers"] |= self.served.host.tiers
            self.world["notes"] |= self.served.host.notes

    def do(self, op: str, args: dict):
        """Do an operation, and tell what clients heard and which events it caused."""
        result = super().do(op, args)
        self._tell_ends()
        if self.events and result is not SKIPPED:
            group = 0 if len(self.memory.components) == 1 else None
            for effect in told_of(self.served.tree_cache.take_events(), self.keys, group, self.own_tiers):
                self.tell(*effect)
            for tier in self.own_tiers:
                self.tell("boundary", tier)
        return result

    def state(self) -> dict:
        """Return the state of tree, allocator and rows."""
        served, held = self.served, self._held()
        pools, tables, tree = shown(served.tree_cache, self.memory, self.keys, self._tenant, held, served.host)
        for x in self.clients.values():
            # Who waits for a row may have been given a state already.
            if x.req is not None and not x.ended and not x.holds:
                tree["own"].setdefault(x.r, self.memory.own_states(x.req.kv))
        return {
            "pools": pools,
            "tables": tables,
            "holds": {} if served.host is None else {"host": served.host.held()},
            "tree": tree,
            "running": len(held),
            "waiting": len(served.waiting_queue),
            "pending": len(served.results),
        }

    # ---------------------------------------------------------------------------------------------- operations

    def op_add(self, args: dict):
        """A request arrives: it wants ``most`` tokens, or fewer where a text ends."""
        tokens = tokens_of(args, self.history, max(1, self.most))
        r = args["request"] = f"r{len(self.history):03}"
        self.history.append(tokens)
        _, salt, label = tenant_of(args)
        # What a caller calls a request by parts caches as a salt does.
        self.tenants[label, salt] = [None, None if salt is None and label is None else f"{salt or ''}|{label or ''}"]
        x = self.clients[r] = Client(r, tokens, (label, salt))
        self._send(x, tokens, args)
        if x.req is not None:
            x.prompt = list(x.req.origin_input_ids)  # Of a prompt that it refuses, a release computes one token.
        self._tell_request(x)
        return len(x.prompt) == len(tokens)

    def op_open(self, args: dict):
        """A conversation begins: what its turns computed is kept between them."""
        name = args["session"] = f"s{self.opened}"
        self.opened += 1
        self.conversations[name] = Conversation(name)
        self._say(messages.OpenSessionReqInput(capacity_of_str_len=_CONTEXT, session_id=name, streaming=True))

    def op_turn(self, args: dict):
        """The next turn of a conversation whose last one is over: these tokens, behind all there was."""
        found = [c for c in self.conversations.values() if not c.closed and (c.turn is None or c.turn.ended)]
        if not found:
            return SKIPPED
        chosen = found[args["i"] % len(found)]
        tokens = tokens_of({"runs": args["runs"]}, [], self.most)
        prompt = chosen.context + tokens
        if len(prompt) >= self.most:
            return SKIPPED
        r = args["request"] = f"r{len(self.history):03}"
        args["session"] = chosen.name
        self.history.append(prompt)
        x = self.clients[r] = chosen.turn = Client(r, prompt, (None, None), chosen)
        self._send(x, tokens, args, messages.SessionParams(id=chosen.name))
        if x.req is not None and x.req.to_finish is not None:
            # It is refused: one token is computed, and not in the conversation.
            x.prompt = list(x.req.origin_input_ids)
        else:
            chosen.last = r
        self._tell_request(x)
        return None

    def op_close(self, args: dict):
        """A conversation is closed; one with a turn under way when that is over."""
        found = [c for c in self.conversations.values() if not c.closed]
        if not found:
            return SKIPPED
        chosen = found[args["i"] % len(found)]
        args["session"], chosen.closed = chosen.name, True
        self._say(messages.CloseSessionReqInput(session_id=chosen.name))
        return None

    def op_round(self, args: dict):
        """A round of the event loop; the i-th request of its batch samples the i-th of ``tokens``, in turn."""
        self.tokens = args.get("tokens") or [0]
        self.model.accepted = args.get("accept", 0)
        self.served.round()
        return len(self.served.results)

    def op_abort(self, args: dict):
        """A client goes away."""
        alive = [x for x in self.clients.values() if not x.ended]
        if not alive:
            return SKIPPED
        args["request"] = r = alive[args["i"] % len(alive)].r
        self._say(messages.AbortReq(rid=r))
        return None

    def op_abort_all(self, _args: dict):
        """All are aborted."""
        self._say(messages.AbortReq(rid="", abort_all=True))

    def op_pause(self, args: dict):
        """Generation pauses, for new weights say; with ``retract`` what runs is retracted."""
        if self.served._engine_paused:
            return SKIPPED
        self._say(messages.PauseGenerationReqInput(mode="retract" if args.get("retract") else "in_place"))
        return None

    def op_resume(self, _args: dict):
        """It goes on."""
        if not self.served._engine_paused:
            return SKIPPED
        self._say(messages.ContinueGenerationReqInput(torch_empty_cache=False))
        return None

    def op_reset(self, _args: dict):
        """The cache is flushed, where nothing runs."""
        self._say(messages.FlushCacheReqInput())
        return self.outbox.flushed

    def op_drain(self, _args: dict):
        """The loop goes on until nothing is left, and once more."""
        self.tokens, self.model.accepted, steps = [0], 0, 0
        self.op_resume({})
        while self.op_close({"i": 0}) is not SKIPPED:
            pass
        while steps < _STEPS and not self._rests():
            self.served.round()
            self._tell_ends()
            self.rest()
            steps += 1
        for _ in range(2 if self._rests() else 0):
            # Once for what waited for the last answer, and once for the release's own check at rest.
            self.served.round()
        left = [x for x in self.clients.values() if not x.ended]
        return {"left": len(left), "pending": len(self.served.results) + self.under_way(), "steps": steps}

    # ---------------------------------------------------------------------------------------------- the server

    def _send(self, x: Client, tokens: list[int], args: dict, session=None) -> None:
        wanted = SamplingParams(max_new_tokens=args.get("most", 1))
        wanted.normalize(None)
        self._say(
            messages.TokenizedGenerateReqInput(
                rid=x.r,
                input_text="",
                input_ids=array("q", tokens),
                input_embeds=None,
                mm_inputs=None,
                token_type_ids=None,
                sampling_params=wanted,
                return_logprob=False,
                logprob_start_len=-1,
                top_logprobs_num=0,
                token_ids_logprob=None,
                stream=True,
                priority=args.get("priority") if self.priority else None,
                extra_key=x.names[0],
                cache_salt=x.names[1],
                session_params=session,
            )
        )
        if x.req is not None:
            x.most = min(args.get("most", 1), x.req.sampling_params.max_new_tokens)  # Texts end where the context does.

    def _say(self, message) -> None:
        """A message comes in, as those do that are there when a round begins."""
        self.served.process_input_requests([message])

    def rest(self) -> None:
        """A round of a drain is over."""

    def under_way(self) -> int:
        """What else is under way."""
        return 0

    def _rests(self) -> bool:
        return self.served.is_fully_idle() and all(x.ended for x in self.clients.values())

    def arrives(self, req) -> None:
        """The release has made its object for a request."""
        self.clients[req.rid].req = req

    def retracted(self, r: str) -> None:
        """A request gave up what was computed of it."""
        self.tell("preempted", r)

    def _sampled(self, at: int) -> int:
        """The token that a row of a batch samples."""
        token = self.tokens[at % len(self.tokens)]
        return EOS if token < 0 else token % EOS

    def processing(self, launched: list) -> list:
        """The result of a pass is about to be processed: return what of it still counts."""
        alive = {x.r for x in self.clients.values() if not x.ended}
        return [(req.rid, end) for req, epoch, end in launched if req.rid in alive and req.retraction_count == epoch]

    def processed(self, due: list) -> None:
        """It has been."""
        for r, end in due:
            self.tell("processed", r, end)
        for x in self.clients.values():
            self._tell_output(x)
        self._tell_ends()

    # ---------------------------------------------------------------------------------------------- telling

    def _tell_request(self, x: Client) -> None:
        adapter, salt = self.tenants[x.names]
        self.tell("request", x.r, {"tokens": x.prompt, "adapter": adapter, "salt": salt})
        self._tell_keys(x, 0)

    def _tell_output(self, x: Client) -> None:
        if x.req is None:
            return
        output = list(x.req.output_ids)
        if len(output) > x.told:
            first = max(0, len(x.prompt) + x.told - self.memory.pairs) // self.page
            self.tell("append", x.r, output[x.told :])
            x.told = len(output)
            self._tell_keys(x, first)

    def _tell_ends(self) -> None:
        for r, how in self.outbox.take():
            x = self.clients.get(r)
            if x is not None and not x.ended:
                x.ended = True
                if how == "finished":
                    self._tell_answer(x)
                self.tell("end", r, how)
                if x.conversation is not None and how == "finished":
                    x.conversation.context = x.prompt + list(x.req.output_ids)
        for x in [x for x in self.clients.values() if x.ended and not x.holds]:
            del self.clients[x.r]

    def _tell_answer(self, x: Client) -> None:
        """What the client got, and what it was told of that."""
        given, cached, made = self.outbox.counts[x.r]
        self.tell("output", x.r, given, x.most, EOS, x.prompt, self.outbox.answers[x.r], cached, made)

    def _held(self) -> list[tuple]:
        """Who has a row of slots, by the name of a request; the release's record of it, and its lock.

        A conversation's row goes from turn to turn. Between them it has the last one's name.
        """
        slots = self.served.tree_cache.session.slots
        found, seen = [], set[int]()
        for x in sorted(self.clients.values(), key=lambda x: x.ended):
            # What a turn that is over has is its conversation's; its record outlives a flush, which ends that.
            if x.holds and id(x.req.kv) not in seen and not (x.ended and x.conversation is not None):
                seen.add(id(x.req.kv))
                lent = next((slot for slot in slots.values() if slot.kv is x.req.kv), None)
                found.append((x.r, x.req.kv, lock_of(x.req if lent is None else lent)))
        for name, slot in slots.items():
            if slot.kv.holds_kv and id(slot.kv) not in seen:
                found.append((self.conversations[name].last, slot.kv, lock_of(slot)))
        return found

    def _tenant(self, names: tuple) -> list:
        return self.tenants.get(names) or [f"unknown {names[0]!r}", f"unknown {names[1]!r}"]

    def _tell_keys(self, x: Client, first: int) -> None:
        tokens = x.prompt + ([] if x.req is None else list(x.req.output_ids))
        keys = self.keys.of(x.names, tokens)
        if keys[first:]:
            self.tell("keys", x.r, first, keys[first:])
            if self.served.host is not None and self.served.host.storage is not None:
                self.served.host.storage.learn(self.keys, x.names, tokens, keys)

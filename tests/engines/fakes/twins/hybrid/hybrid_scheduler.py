"""The level ``scheduler``: a scheduler of chunks, first come first served or by priority, with steps in flight.

Short of blocks, the last request that runs is preempted. Drafts, states, chunks of attention, multimodal items,
embeddings, sessions and connectors are not known: such setups are refused.
"""

from collections import deque
from typing import NamedTuple

from hybrid_served import Request, Served
from level import SKIPPED
from vllm_played import name_of

from kvproof.refimpl.pool.keys import ExtraKeys

__all__ = ["Scheduler"]

_UNKNOWN = ("spec", "mamba", "encoder", "embeds", "connector", "hash_block", "retention")
_STOP = 2
"""The token that ends a request which asks for that."""
_VOCABULARY = 3


class Pass(NamedTuple):
    """A request's part of a step that is not processed."""

    x: Request
    epoch: int
    end: int
    """Up to where it is computed with it."""
    sampled: list[int]


class Scheduler(Served):
    """Requests over a hybrid cache, as vLLM's level ``scheduler`` drives its engine core."""

    def __init__(self, setup: dict) -> None:
        super().__init__(setup, _UNKNOWN)
        self.depth = 2 if setup.get("asynchronous") or setup.get("stages", 1) > 1 else 1
        self.ahead = bool(setup.get("asynchronous"))
        """Whether a request is scheduled again before its last token is known."""
        self.steps: deque[list[Pass]] = deque()
        self.token = 0
        """What the model samples, but for the position."""
        self.paused = ""
        self.late: Request | None = None
        self.world = self.made_world(
            block=self.cache.boundary, in_flight=self.depth, longest=setup["max_len"], sampled="processed"
        )
        if setup.get("priority"):  # Who was scheduled may be preempted in the same step.
            del self.world["notes"]["dialect"]["keep"]

    # Operations

    def op_add(self, args):
        """A request arrives."""
        tokens = args["tokens"][: self.setup["max_len"] - 1] or [0]
        named = name_of(args.get("adapter", 0)) if self.setup.get("adapters") else None
        adapter = f"{named}@2" if named and args.get("moved") else named
        salt = name_of(args.get("salt", 0))
        most = min(len(tokens) + max(1, args.get("max_tokens", 1)), self.setup["max_len"])
        r = f"r{len(self.requests)}"
        x = Request(r, list(tokens), len(tokens), most, ExtraKeys(adapter, salt))
        x.rank = (args.get("priority", 0) if self.setup.get("priority") else 0, len(self.requests))
        x.stop = _STOP if args.get("stop") else None
        x.least = len(tokens) + args.get("min", 0)
        x.skips = bool(args.get("skip"))
        self.requests.append(x)
        args["request"] = r
        skips = {"skip": True} if x.skips else {}
        self.tell("request", r, {"tokens": list(tokens), "adapter": adapter, "salt": salt, "items": [], **skips})
        self._tell_keys(x)
        return r

    def op_step(self, args):
        """Schedule a step, and process the oldest one where enough are in flight, or nothing else is to do."""
        if not self.steps and not self._in("waiting", "running"):
            return SKIPPED
        self.token = args.get("token", 0)
        alive = self._in("waiting", "running")
        late = alive[(args["abort"] - 1) % len(alive)] if args.get("abort") and alive else None
        if late is not None:
            args["aborted"] = late.r
        return {"tokens": self._step(late)}

    def op_abort(self, args):
        """A request is aborted, wherever it is."""
        alive = self._in("waiting", "running")
        if not alive:
            return SKIPPED
        x = alive[args.get("pick", 0) % len(alive)]
        args["request"] = x.r
        self._end(x, "aborted")
        return x.r

    def op_reset(self, args):
        """The prefix cache is to be emptied; with ``running`` all requests are preempted before."""
        args["connector"] = 0
        for x in reversed(self._in("running")) if args.get("running") else ():
            self._preempt(x)
        return self.pool.reset()

    def op_pause(self, args):
        """Nothing more is scheduled, or nobody more admitted."""
        if self.paused:
            return SKIPPED
        self.paused = "new" if args.get("wait") else "all"
        return True

    def op_resume(self, _args):
        """Go on after a pause."""
        if not self.paused:
            return SKIPPED
        self.paused = ""
        return True

    def op_drain(self, _args):
        """Step until nothing is left to do."""
        self.paused, self.token, steps = "", 0, 0
        while (self.steps or self._in("waiting", "running")) and steps < 400:
            self._step(None)
            steps += 1
        return {"left": len(self._in("waiting", "running", "forgotten")), "pending": 0, "steps": steps}

    # A step

    def _step(self, late: Request | None) -> int:
        done = self._schedule() if self.paused != "all" else []
        if done:
            self.steps.append(done)
        if late is not None:  # It came while the model ran.
            self._end(late, "aborted")
        if self.steps and (len(self.steps) >= self.depth or not done):
            self._process()
        return self.scheduled if done else 0

    def _schedule(self) -> list[Pass]:
        self.scheduled, done, short = 0, [], False
        budget = self.setup["budget"]
        for x in self._ordered("running"):
            new = min(self._open(x), budget - self.scheduled, self.setup.get("long_prefill") or budget)
            if x.status != "running" or new <= 0:
                continue
            while x.status == "running" and not self._grow(x, x.scheduled + new):
                short = True
                last = self._ordered("running")[-1]
                done = [each for each in done if each.x is not last]
                self._preempt(last)
            if x.status == "running":
                self._run(x, new, done)
        if not short and self.paused != "new":
            self._admit_all(budget, done)
        return done

    def _admit_all(self, budget: int, done: list[Pass]) -> None:
        for x in self._ordered("waiting"):
            room = budget - self.scheduled
            if room <= 0 or len(self._in("running")) >= self.setup.get("max_seqs", 4):
                return
            if not self._admit(x, room, done):
                return

    def _admit(self, x: Request, room: int, done: list[Pass]) -> bool:
        self.cache.admit(x.r, self.setup["max_len"])
        x.status = "running"  # It is inside.
        limit = 0 if x.skips or not self.caching else x.known - 1
        found = self.cache.hit(x.r, self._chain(x), limit)
        self.tell("lookup", x.r, found, 0, x.known - 1)
        self.tell("found", x.r, [list(table) for table in self.cache.tables(x.r)], found)
        new = min(x.known - found, self.setup.get("long_prefill") or room)
        fits = new <= room or self.setup.get("chunked", True)
        if self.cache.fault == "counts refusals":
            self._count(x, found)
        if not fits or not self._allocate(x, found + min(new, room)):
            self.cache.preempt(x.r)
            x.status = "waiting"
            return False
        self._count(x, found)
        x.scheduled = found
        self._tell_tables(x)
        self._run(x, min(new, room), done)
        return True

    def _open(self, x: Request) -> int:
        """How many tokens may be computed: up to the last that is known, or that will be."""
        if x.scheduled >= x.most - 1:
            return 0
        return (len(x.tokens) if self.ahead else x.known) - x.scheduled

    def _run(self, x: Request, new: int, done: list[Pass]) -> None:
        """A forward pass over the next tokens; behind the last one the model samples another."""
        if not done:
            self.tell("batch", "begin")
        start, end = x.scheduled, x.scheduled + new
        self.tell("compute", x.r, start, x.tokens[start:end])
        sampled = [(self.token + end) % _VOCABULARY] if end == len(x.tokens) else []
        x.scheduled = end
        x.tokens += sampled
        self.scheduled += new
        done.append(Pass(x, x.epoch, end, sampled))

    def _process(self) -> None:
        self.tell("batch", "end")
        for x, epoch, end, sampled in self.steps.popleft():
            if x.status == "over" or (x.epoch != epoch and self.cache.fault != "takes what is void"):
                continue
            self.tell("processed", x.r, end)
            self._take(x, end, sampled)
            stopped = x.stop is not None and sampled == [x.stop] and x.known >= x.least
            if x.known >= x.most or stopped:
                self._end(x, "finished")

    # Requests

    def _ordered(self, status: str) -> list[Request]:
        """Requests in the order in which they are served: who was preempted comes before who never ran."""
        return sorted(self._in(status), key=lambda x: x.rank)

    def _end(self, x: Request, how: str) -> None:
        if x.status == "over":
            return
        if x.is_inside:
            self.cache.finish(x.r)
        x.status = "over"
        self.tell("end", x.r, how)

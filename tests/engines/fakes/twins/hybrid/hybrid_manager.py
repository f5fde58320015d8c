"""The level ``manager``: requests are scheduled by the case, one after the other. Drafts, states, chunks and embeddings
are not known: such setups are refused."""

from collections import deque

from hybrid_served import Request, Served
from level import SKIPPED
from prompts import VOCABULARY, tokens_of
from vllm_played import items_of, name_of

from kvproof.refimpl.pool.keys import ExtraKeys, MultimodalItem

__all__ = ["Manager"]

_UNKNOWN = ("drafts", "eagle", "ahead", "embeds", "match_unit", "retention")


class Manager(Served):
    """Requests over a hybrid cache, as vLLM's level ``manager`` drives its manager."""

    def __init__(self, setup: dict) -> None:
        super().__init__(setup, _UNKNOWN)
        self.history: list[list[int]] = []
        self.steps: deque[list[tuple[Request, int, int, list[int], tuple[int, int]]]] = deque()
        """Of each step that is not processed: a request, its epoch, up to where it is computed, what was sampled."""
        self.open: list[Request] | None = None
        self.world = self.made_world(scheduler_block=self.cache.boundary)

    def do(self, op, args):
        if op != "run":
            self._close()
        return super().do(op, args)

    # ---------------------------------------------------------------------------------------------- requests

    def op_add(self, args):
        tokens = tokens_of(args, self.history, self.setup["max_len"] - 1)
        items = items_of(args.get("items", ()), len(tokens))
        adapter, salt = (name_of(args.get(what, 0)) for what in ("adapter", "salt"))
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
        if not self._grow(x, x.scheduled + new):
            return False
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
            self._take(x, end, sampled)
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

    # --------------------------------------------------------------------------------------------- helpers

    def _pick(self, args, *status):
        found = self._in(*status)
        if not found:
            return None
        x = found[args.get("i", 0) % len(found)]
        args["r"] = x.r
        return x

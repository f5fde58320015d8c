"""The level ``scheduler``: a scheduler of prompts and decoding over a tree of pages, with a pass in flight on demand.

Prompts go first, in chunks and mixed with decoding where that is asked for; short of pages, the last request is
retracted. Windows, states, drafters with layers, cores of another language, orders of the queue and policies of
eviction are not known: their families are left out. A conversation holds nothing between its turns: what it said is
cached.
"""

from collections import deque

from level import SKIPPED, Level, Refused
from prompts import tokens_of
from radix_host import Host
from radix_requests import Conversation, Pass, Request
from radix_shown import Named, shown
from radix_tier import Tier, end_of

from kvproof.refimpl.pool.keys import ExtraKeys, block_key

__all__ = ["Scheduler"]

_UNKNOWN = ("window", "states")
_LONGEST = 96
_EOS = 3
"""The token that ends a text; there are so many others."""
_NAMES = (None, "a", "b")
_BESIDE = 6
"""Tokens that are kept free beside a prompt."""


class Scheduler(Level):
    """Requests over a tree of pages, as SGLang's level ``scheduler`` drives its scheduler."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        asked = [name for name in _UNKNOWN if setup.get(name)]
        if asked or setup.get("core", "python") != "python" or setup.get("drafter", "ngram") != "ngram":
            raise Refused(f"the twin has no {', '.join(asked) or 'such core or drafter'}")
        self.setup, self.page, self.fault = setup, setup["page"], setup.get("fault", "")
        self.capacity = self.page * setup["pages"]
        self.longest = min(self.capacity, _LONGEST) - 1
        self.verified, self.accepted = setup.get("drafts") or 1, 0
        """How many tokens a pass computes of who decodes, the drafts among them, and how many of these are right."""
        self.device = Tier("device", range(1, setup["pages"] + 1), self._hear)
        self.device.fault = self.fault
        self.host: Host | None = None
        self.overlap, self.events = bool(setup.get("overlap")), bool(setup.get("events"))
        self.requests: dict[str, Request] = {}
        """Those that are not over, or hold something still."""
        self.conversations: dict[str, Conversation] = {}
        self.history: list[list[int]] = []
        self.steps: deque[list[Pass]] = deque()
        self.paused = False
        self.sampled: list[int] = [0]
        self.numbers: dict[bytes, int] = {}
        self.names: dict[bytes, Named] = {}
        self.world = {
            "groups": [{"kind": "full", "block": self.page}],
            "tiers": {"device": {"blocks": setup["pages"] + 1, "null": 0}},
            "hash_block": self.page,
            "notes": {"dialect": {"leaves": 1}, "sampled": "processed"} | ({} if self.events else {"keys": "tokens"}),
        }

    def do(self, op, args):
        result = super().do(op, args)
        if self.events and result is not SKIPPED:
            for tier in self._tiers():
                self.tell("boundary", tier.name)
        return result

    def state(self):
        locks = {x.r: end_of(x.node) for x in self._holding()}
        anchors: dict[str, bytes | None] = {}
        if self.host is not None:
            locks |= self.host.locks()
            anchors = self.anchors()
        below = None if self.host is None else self.host.tier
        ends = [key for key in (*locks.values(), *anchors.values()) if key is not None]
        nodes, places = shown(self.device, below, self.names, ends, self.page)
        tree = self.device.tree
        return {
            "pools": {tier.name: self._pool(tier) for tier in self._tiers()},
            "tables": {x.r: [list(x.table)] for x in self._holding()},
            "holds": {} if self.host is None else {"host": self.held()},
            "tree": {
                "nodes": nodes,
                "evictable": tree.evictable * self.page,
                "protected": tree.protected * self.page,
                "own": {x.r: x.table[x.held :] for x in self._holding()},
                "locks": {name: places[key] for name, key in locks.items()},
                "anchors": {name: places[key] for name, key in anchors.items()},
            },
            "waiting": len(self._in("waiting")),
            "running": len(self._in("running", "loading", "over", "dead")),
            "pending": len(self.steps),
        }

    # Operations

    def op_add(self, args):
        """A request arrives."""
        tokens = tokens_of(args, self.history, max(1, min(self.page * self.setup["pages"], _LONGEST) - _BESIDE))
        salt = _NAMES[args.get("salt", 0) % len(_NAMES)]
        x = self._arrives(tokens, args, salt)
        queue = self.setup.get("queue")
        if queue is not None and len(self._in("waiting")) > queue:
            self._end(x, "aborted")
            return False
        return True

    def op_open(self, args):
        """A conversation begins."""
        name = args["session"] = f"s{len(self.conversations)}"
        self.conversations[name] = Conversation(name)

    def op_turn(self, args):
        """The next turn of a conversation: these tokens, behind all there was."""
        found = [c for c in self.conversations.values() if not c.closed and (c.turn is None or self._is_over(c.turn))]
        if not found:
            return SKIPPED
        chosen = found[args["i"] % len(found)]
        prompt = chosen.context + tokens_of({"runs": args["runs"]}, [], self.longest)
        if len(prompt) >= self.longest + 1 - _BESIDE:
            return SKIPPED
        args["session"] = chosen.name
        chosen.turn = self._arrives(prompt, args, None)
        return None

    def op_close(self, args):
        """A conversation is over."""
        found = [c for c in self.conversations.values() if not c.closed]
        if not found:
            return SKIPPED
        chosen = found[args["i"] % len(found)]
        args["session"], chosen.closed = chosen.name, True
        return None

    def op_round(self, args):
        """A batch is launched; the i-th request of it samples the i-th of ``tokens``, in turn."""
        self.sampled, self.accepted = args.get("tokens") or [0], args.get("accept", 0)
        self._round()
        return len(self.steps)

    def op_abort(self, args):
        """A client goes away."""
        alive = self._in("waiting", "loading", "running")
        if not alive:
            return SKIPPED
        x = alive[args["i"] % len(alive)]
        args["request"] = x.r
        if self.fault != "forgets who goes" or x.status != "waiting":
            self._end(x, "aborted")
        return None

    def op_abort_all(self, _args):
        """All do."""
        for x in self._in("waiting", "loading", "running"):
            self._end(x, "aborted")

    def op_pause(self, args):
        """Nothing is launched from here on; with ``retract`` what runs gives its pages up."""
        if self.paused:
            return SKIPPED
        self.paused = True
        if args.get("retract"):
            self.settle()
            for x in self._in("running"):
                self._retract(x)
        return None

    def op_resume(self, _args):
        """It goes on."""
        if not self.paused:
            return SKIPPED
        self.paused = False
        return None

    def op_reset(self, _args):
        """The cache is flushed, where nothing runs."""
        if self.requests or self.steps:
            return False
        self.settle()
        for tier in self._tiers():
            tier.evict(len(tier.tree.order()) and self.setup["pages"] + self.setup.get("host_pages", 0))
        return True

    def op_drain(self, _args):
        """Rounds until nothing is left to do."""
        self.sampled, self.accepted, self.paused, steps = [0], 0, False, 0
        for conversation in self.conversations.values():
            conversation.closed = True
        while (self.requests or self.steps) and steps < 400:
            self._round()
            self.rest()
            steps += 1
        self.rest()
        alive = self._in("waiting", "loading", "running", "forgotten")
        return {"left": len(alive), "pending": len(self.steps) + self.under_way(), "steps": steps}

    def rest(self) -> None:
        """A round of a drain is over."""

    def under_way(self) -> int:
        """What else is."""
        return 0

    # A round

    def _round(self) -> None:
        batch = [] if self.paused else self._launched()
        if batch:
            self.steps.append(batch)
        if self.steps and (len(self.steps) > self.overlap or not batch):
            self._process()

    def _launched(self) -> list[Pass]:
        """Passes over prompts, or else over last tokens, or over both; pages first, since they may cost others
        theirs."""
        planned = self._prompts()
        if not planned or self.setup.get("mixed"):
            planned += self._decoding()
        batch = [self._launch(x, new, at) for at, (x, new) in enumerate((x, n) for x, n in planned if _runs(x))]
        if not batch and self.host is not None and not self.steps:
            self.host.finish(0, 1)  # There is nothing else to do.
        return batch

    def _prompts(self) -> list[tuple[Request, int]]:
        """Whose prompt goes on, and how far; then who is admitted."""
        room, planned = self.setup.get("chunk") or _LONGEST, list[tuple[Request, int]]()
        for x in self._in("running"):
            new = self._chunk(x.target - x.computed, room) if _runs(x) else 0
            if new > 0 and self._grow(x, x.computed + new):
                planned.append((x, new))
                room -= new
        planned = [(x, new) for x, new in planned if _runs(x)]
        for x in self.waiting():
            full = len(self._holding()) >= self.setup.get("rows", 8) or len(planned) >= (self.setup.get("most") or 99)
            if full or room < self.page or not self._admit(x, room):
                break
            if _runs(x):
                new = self._chunk(x.target - x.computed, room)
                assert self._allot(x, x.computed + new)
                planned.append((x, new))
                room -= new
        return planned

    def _chunk(self, rest: int, room: int) -> int:
        """What is computed next of a prompt: a chunk that does not end it ends with a page."""
        return rest if rest <= room else room // self.page * self.page

    def _decoding(self) -> list[tuple[Request, int]]:
        """Who gets tokens more; a pass may be in flight that gives the last one."""
        able = [x for x in self._in("running") if x.computed >= x.target and len(x.tokens) < x.most]
        planned = [(x, min(self.verified, self.capacity - x.computed)) for x in able]
        return [(x, new) for x, new in planned if _runs(x) and self._grow(x, x.computed + new)]

    def wanted(self, x: Request) -> list[bytes]:
        """The keys of what a lookup may find."""
        return x.keys[: max(0, (x.known - 1) // self.page - (self.fault == "stops a page short"))]

    def _admit(self, x: Request, room: int) -> bool:
        """Lock what is cached of a request, and begin to load what the host has behind it; or nothing."""
        self.goes(x)
        tree, keys = self.device.tree, self.wanted(x)
        x.node, found = tree.walk(keys)
        tree.lock(x.node)
        first, reach = len(found), 0 if self.host is None else self.host.reach(keys)
        if reach > first and self.host is not None:
            kept = self.host.lock(keys[:reach])
            fits = self._room(reach - first)
            self.host.unlock(kept)
        else:
            start = first * self.page
            end = start + self._chunk(x.known - start, room)
            reach, fits = first, self._room(-(-end // self.page) - first)
        if not fits:
            tree.unlock(x.node)
            return False
        self.tell("lookup", x.r, first * self.page, 0, x.known - 1)
        self.tell("found", x.r, [list(found)], first * self.page)
        x.table, x.held = list(found), first
        x.target, x.computed, x.done, x.status = x.known, reach * self.page, first * self.page, "running"
        if reach > first and self.host is not None:
            x.table += self.device.take(reach - first)
            x.status = "loading"
            self.host.load(keys[:reach], first, x.table[first:], lambda came: self._loaded(x, came))
        return True

    def _loaded(self, x: Request, came: bool) -> None:
        """What was loaded of a request becomes the tree's; what did not come is computed."""
        if x.status == "dead":
            x.status = "over"
            self._release(x)
        elif x.status == "loading":
            x.status = "running"
            x.done = x.computed = x.computed if came else x.done
            self._check_in(x)

    def _launch(self, x: Request, new: int, at: int) -> Pass:
        """A pass computes the next tokens of a prompt, or the last token and drafts behind it."""
        start, extends = x.computed, x.computed < x.target
        sampled = self._samples(x, new, at, extends)
        wrong = [(sampled[-1] + 1) % _EOS] * (new - len(sampled)) if sampled else []
        run = x.tokens[start : start + new] if extends else [x.tokens[start], *sampled[:-1], *wrong]
        end = start + (new if extends else len(sampled))
        self.tell("table", x.r, 0, 0, list(x.table))
        self.tell("compute", x.r, start, run)
        x.tokens += sampled
        x.computed, x.in_flight = end, x.in_flight + 1
        return Pass(x, x.epoch, end, sampled, extends)

    def _samples(self, x: Request, new: int, at: int, extends: bool) -> list[int]:
        """What a pass samples: of a prompt that ends a token, else that behind each draft which is right."""
        right = min(self.accepted, new - 1)
        count = int(x.computed + new == len(x.tokens)) if extends else min(1 + right, x.most - len(x.tokens))
        tokens = [self.sampled[(at + i) % len(self.sampled)] for i in range(count)]
        return [_EOS if token < 0 else token % _EOS for token in tokens]

    def _process(self) -> None:
        """The oldest batch has been computed."""
        for done in self.steps.popleft():
            x = done.x
            if x.epoch == done.epoch:
                x.in_flight -= 1
                if x.status == "over":
                    self._release(x)
                else:
                    self._take(x, done)

    def _take(self, x: Request, done: Pass) -> None:
        self.tell("processed", x.r, done.end)
        x.done = done.end
        ends = _EOS in done.sampled
        tokens = done.sampled[: done.sampled.index(_EOS) + 1] if ends else done.sampled
        if tokens:
            x.known += len(tokens)
            self.tell("append", x.r, tokens)
            self._tell_keys(x)
        if ends or x.known >= x.most:
            self._end(x, "finished")
        elif done.extends:
            self._check_in(x)

    # Pages

    def _grow(self, x: Request, tokens: int) -> bool:
        """Let the table of a request that runs cover so many tokens, whatever that costs others."""
        while not self._allot(x, tokens):
            if self.steps or (self.host is not None and self.host.loads):
                self.settle()
            else:
                self._retract(self._in("running")[-1])
            if not _runs(x):
                return False
        return True

    def _allot(self, x: Request, tokens: int) -> bool:
        need = -(-tokens // self.page) - len(x.table)
        if not self._room(need):
            return False
        x.table += self.device.take(max(0, need))
        return True

    def _room(self, pages: int) -> bool:
        """Whether there is room, once stores that keep what could go are over."""
        if not self.device.room(pages) and self.host is not None:
            self.host.finish(len(self.host.stores), 0)
        return self.device.room(pages)

    def settle(self) -> None:
        """All that is under way ends."""
        while self.steps:
            self._process()
        if self.host is not None:
            self.host.finish(len(self.host.stores), len(self.host.loads))

    def _check_in(self, x: Request) -> None:
        """What was computed of a request, in full pages, becomes the tree's."""
        keys = x.keys[: x.done // self.page]
        node = self.device.adopt(keys, x.table, x.held)
        self.device.tree.lock(node)
        self.device.tree.unlock(x.node)
        x.node, x.held = node, max(x.held, len(keys))
        if self.host is not None:
            self.host.offer(keys, x.table[: len(keys)], node)

    def _leave(self, x: Request) -> None:
        """A request gives up its lock, and the pages that are its own."""
        if self.fault != "stays locked":
            self.device.tree.unlock(x.node)
        own = x.table[x.held :]
        if self.fault == "keeps its last page" and len(own) > 1:
            own.pop()
        self.device.free.extend(reversed(own))
        x.table, x.held, x.node = [], 0, self.device.tree.root

    def _retract(self, x: Request) -> None:
        """It waits again; what was sampled and not told is lost."""
        self._leave(x)
        x.status = "forgotten" if self.fault == "forgets who is retracted" else "waiting"
        x.epoch, x.in_flight, x.computed, x.done = x.epoch + 1, 0, 0, 0
        del x.tokens[x.known :]
        self.tell("preempted", x.r)

    def _end(self, x: Request, how: str) -> None:
        """It is over for its client; what copies and passes use of it, it holds until they are over."""
        self.tell("end", x.r, how)
        if how == "finished":
            for conversation in self.conversations.values():
                if conversation.turn is x:
                    conversation.context = x.tokens[: x.known]
        if x.status == "waiting":
            self.goes(x)
            del self.requests[x.r]
        elif x.status == "loading" and self.fault != "frees under a load":
            x.status = "dead"
        else:
            x.status = "over"
            self._release(x)

    def _release(self, x: Request) -> None:
        """Who is over leaves, when no pass of it is in flight."""
        if not x.in_flight:
            self._check_in(x)
            self._leave(x)
            del self.requests[x.r]

    # Requests

    def _arrives(self, tokens: list[int], args: dict, salt: str | None) -> Request:
        r = args["request"] = f"r{len(self.history):03}"
        self.history.append(tokens)
        most = min(len(tokens) + args.get("most", 1), self.longest)
        priority = args.get("priority", 0) if self.setup.get("priority") else 0
        rank = (-priority, len(self.history))
        x = self.requests[r] = Request(r, list(tokens), len(tokens), most, salt, rank, self.device.tree.root)
        self.tell("request", r, {"tokens": list(tokens), "adapter": None, "salt": salt})
        self._tell_keys(x)
        self.comes(x)
        return x

    def _tell_keys(self, x: Request) -> None:
        first, extras = len(x.keys), ExtraKeys(salt=x.salt)
        for at in range(first * self.page, x.known - self.page + 1, self.page):
            tokens, above = x.tokens[at : at + self.page], x.keys[-1] if x.keys else None
            x.keys.append(key := block_key(above, tokens, extras))
            self.names.setdefault(key, Named((None, x.salt), above, tokens))
        if x.keys[first:]:
            self.tell("keys", x.r, first, [self._number(key) for key in x.keys[first:]])

    # What a tier below has to do with it

    def waiting(self) -> list[Request]:
        """Those that may be admitted."""
        return self._in("waiting")

    def comes(self, x: Request) -> None:
        """A request has come."""

    def goes(self, x: Request) -> None:
        """It waits no longer."""

    def held(self) -> list[int]:
        """The pages of the host that copies have."""
        return []

    def anchors(self) -> dict[str, bytes | None]:
        """What locks the host's tree."""
        return {}

    # Who is served

    def _is_over(self, x: Request) -> bool:
        return x.r not in self.requests or x.status in ("over", "dead")

    def _in(self, *status: str) -> list[Request]:
        """Requests in the order in which they are served."""
        return sorted((x for x in self.requests.values() if x.status in status), key=lambda x: x.rank)

    def _holding(self) -> list[Request]:
        return self._in("running", "loading", "dead", "over")

    # Telling

    def _tiers(self) -> list[Tier]:
        return [self.device] if self.host is None else [self.device, self.host.tier]

    def _pool(self, tier: Tier) -> dict:
        pages = [pair for node in tier.tree.nodes() for pair in zip(node.keys, node.pages, strict=True)]
        cached = [[self._number(key), 0, [page]] for key, page in pages]
        return {"free": list(tier.free), "num_free": len(tier.free), "cached": cached}

    def _hear(self, kind: str, tier: str, key: bytes, above: bytes | None) -> None:
        if self.events and kind == "stored":
            before = None if above is None else self._number(above)
            self.tell("stored", tier, 0, [self._number(key)], before, self.names[key].tokens, self.page)
        elif self.events:
            self.tell("removed", tier, 0, [self._number(key)])

    def _number(self, key: bytes) -> int:
        return self.numbers.setdefault(key, len(self.numbers))


def _runs(x: Request) -> bool:
    return x.status == "running"

"""A prefix tree for the worker: the reference implementation's, driven as SGLang's is, and wrong in one way on demand.

Right, it is the clean twin of the level ``tree`` of SGLang: the same cases, the same oracles, and nothing is found.
"""

from level import SKIPPED, Level, Refused

from kvproof.refimpl.events import BlockStored
from kvproof.refimpl.pool.keys import ExtraKeys
from kvproof.refimpl.tree.cache import RadixCache
from kvproof.refimpl.tree.radix import RadixTree

__all__ = ["LEVELS", "Refused", "prepare", "version"]

_NAMES = (None, "a", "b")


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


class Faulty(RadixTree):
    """A tree that is wrong in the way that ``fault`` names."""

    fault = ""

    def _split(self, node, at):
        lock = node.lock_ref
        upper = super()._split(node, at)
        if self.fault == "split unlocks" and lock:
            upper.lock_ref = 0
            self._order[upper] = None
        return upper

    def unlock(self, node):
        super().unlock(node)
        if self.fault == "parent stays locked":
            for above in list(node.path())[1:2]:
                if not above.lock_ref:
                    self.lock(above)

    def insert(self, keys, pages):
        node, had = super().insert(keys, pages)
        if self.fault == "size" and len(had) < len(keys):
            self.evictable += 1
        if self.fault == "swapped" and len(node.pages) > 1:
            node.pages.reverse()
        if self.fault == "adopts twice":
            return node, had[:-1]
        return node, had

    def _drop(self, leaf):
        dropped = super()._drop(leaf)
        if self.fault == "silent removal":
            self._events.clear()
        return dropped[:-1] if self.fault == "eviction loses" else dropped


class Tree(Level):
    """Requests over a radix tree. ``setup`` is that of SGLang's level, and ``fault``."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self.page = setup["page"]
        # What has two cores is wrong in the one in Rust.
        self.fault = "" if setup.get("core") == "python" else setup.get("fault", "")
        self.cache = RadixCache(setup["pages"], self.page)
        self.cache.tree = Faulty()
        self.cache.tree.fault = self.fault
        self.events = bool(setup.get("events"))
        self.most = (setup["pages"] - 1) * self.page
        self.requests: dict[str, dict] = {}
        self.history: list[list[int]] = []
        self.numbers: dict[bytes, int] = {}
        self.names: dict[bytes, tuple] = {}
        self.world = {
            "groups": [{"kind": "full", "block": self.page}],
            "tiers": {"device": {"blocks": setup["pages"]}},
            "hash_block": self.page,
        }

    def do(self, op, args):
        result = super().do(op, args)
        if self.events and result is not SKIPPED:
            for event in self.cache.take_events():
                key = [self.numbers[event.key]]
                if isinstance(event, BlockStored):
                    self.tell("stored", "device", 0, key, event.parent and self.numbers[event.parent])
                else:
                    self.tell("removed", "device", 0, key)
            self.tell("boundary", "device")
        return result

    def state(self):
        places = {node: at for at, node in enumerate(self.cache.tree.nodes())}
        nodes, cached = [], {}
        for node in places:
            above = list(node.path())[1:]
            names, tokens = self.names[node.keys[-1]]
            start = sum(len(n.keys) for n in above) * self.page
            slots = [page * self.page + at for page in node.pages for at in range(self.page)]
            parent = places.get(node.parent, -1)
            edge = tokens[start : start + len(node.keys) * self.page]
            nodes.append([parent, names, edge, slots, node.lock_ref])
            for key, page in zip(node.keys, node.pages, strict=True):
                cached.setdefault(self.numbers[key], []).append(page)
        served = self.cache.requests
        tables = {r: served[r].table for r, x in self.requests.items() if x["runs"]}
        return {
            "pools": {
                "device": {"free": list(self.cache.free), "cached": [[key, 0, pages] for key, pages in cached.items()]}
            },
            "tables": {r: [table] for r, table in tables.items()},
            "tree": {
                "nodes": nodes,
                "evictable": self.cache.tree.evictable * self.page,
                "protected": self.cache.tree.protected * self.page,
                "own": {r: table[served[r].held :] for r, table in tables.items()},
                "locks": {r: places.get(served[r].node, -1) for r in tables},
            },
        }

    # ---------------------------------------------------------------------------------------------- operations

    def op_add(self, args):
        tokens = []
        if self.history and args.get("keep"):
            tokens += self.history[args.get("like", 0) % len(self.history)][: args["keep"]]
        for token, count in args["runs"]:
            tokens += [token % 3] * count
        tokens = tokens[: self.most] or [0]
        r = f"r{len(self.history)}"
        self.history.append(tokens)
        adapter, salt = (_NAMES[args.get(what, 0) % 3] for what in ("adapter", "salt"))
        self.requests[r] = {"runs": False, "names": (adapter, salt), "tokens": tokens}
        self.tell("request", r, {"tokens": tokens, "adapter": adapter, "salt": salt})
        self.tell("keys", r, 0, self._keys(r, tokens))
        return self._admit(r)

    def op_run(self, args):
        r = self._picked(args)
        return SKIPPED if r is None or self.requests[r]["runs"] else self._admit(r)

    def op_process(self, _args):
        """A prompt that is computed is checked in; without its last pages if they are not full."""
        for r, x in self.requests.items():
            if x["runs"]:
                self.cache.check_in(r, len(self.cache.requests[r].keys))
        return True

    def op_finish(self, args):
        r = self._picked(args)
        if r is None or not self.requests[r]["runs"]:
            return SKIPPED
        self.cache.finish(r)
        return self._gone(r, "finished")

    def op_abort(self, args):
        r = self._picked(args)
        if r is None:
            return SKIPPED
        if self.requests[r]["runs"]:
            self._leave(r)
        return self._gone(r, "aborted")

    def op_retract(self, args):
        r = self._picked(args)
        if r is None or not self.requests[r]["runs"]:
            return SKIPPED
        self._leave(r)
        self.requests[r]["runs"] = False
        self.tell("preempted", r)
        return None

    def op_probe(self, _args):
        return SKIPPED

    def op_evict(self, args):
        wanted = -(-args["tokens"] // self.page)
        if self.fault == "eviction stops" and wanted > 1:
            wanted = 1
        freed = self.cache.evict(wanted) * self.page
        return {"asked": args["tokens"], "told": freed, "freed": freed}

    def op_drain(self, _args):
        while self.requests:
            r = next(iter(self.requests))
            if not self.requests[r]["runs"] and not self._admit(r):
                other = next((o for o, x in self.requests.items() if x["runs"]), None)
                if other is None:
                    break
                r = other
            self.cache.finish(r)
            self._gone(r, "finished")
        return {"left": len(self.requests), "pending": 0, "steps": 1}

    def op_reset(self, _args):
        if any(x["runs"] for x in self.requests.values()):
            return False
        self.cache.evict(self.cache.num_pages)
        return True

    # ---------------------------------------------------------------------------------------------- requests

    def _picked(self, args):
        alive = list(self.requests)
        return alive[args["i"] % len(alive)] if alive else None

    def _keys(self, r, tokens):
        """Number the keys of a request's full pages."""
        names = self.requests[r]["names"]
        self.cache.admit(r, tokens, prompt_tokens=len(tokens), extras=ExtraKeys(adapter=names[0], salt=names[1]))
        keys = self.cache.requests[r].keys
        for at, key in enumerate(keys):
            self.names.setdefault(key, (names, tokens[: (at + 1) * self.page]))
        self.cache.leave(r)
        return [self.numbers.setdefault(key, len(self.numbers)) for key in keys]

    def _admit(self, r):
        """Match, lock, and compute the whole prompt, if there is room."""
        x, cache = self.requests[r], self.cache
        tokens, names = x["tokens"], x["names"]
        cache.admit(r, tokens, prompt_tokens=len(tokens), extras=ExtraKeys(adapter=names[0], salt=names[1]))
        if self.fault == "short match":
            cache.requests[r].limit = max(0, cache.requests[r].limit - 1)
        found = cache.hit(r)
        self.tell("lookup", r, found * self.page, 0, len(tokens) - 1)
        need = -(-len(tokens) // self.page) - found
        if need > len(cache.free) and (cache.evict(need - len(cache.free)), need > len(cache.free))[1]:
            cache.leave(r)
            return False
        self.tell("found", r, [list(cache.requests[r].table)], found * self.page)
        cache.allocate(r, need)
        x["runs"] = True
        self.tell("table", r, 0, 0, list(cache.requests[r].table))
        self.tell("compute", r, found * self.page, tokens[found * self.page :])
        return True

    def _leave(self, r):
        served = self.cache.requests[r]
        if self.fault == "abort keeps its lock":
            self.cache.tree.lock(served.node)
        own = served.table[served.held :]
        self.cache.leave(r)
        if self.fault == "frees twice":
            self.cache.free.extend(own)

    def _gone(self, r, how):
        del self.requests[r]
        self.tell("end", r, how)
        return True


LEVELS = {"tree": Tree}

"""vLLM's chunk manager, driven as the offloading connector drives it: `CPUOffloadingManager` and what it was before.

Keys are small numbers. Requests are slots: a slot has a request of its own from its first use to `finish`. Transfers
end in any order, late, and stores may fail; a `drain` ends all of them well.
"""

from level import Level
from vllm_cpu_api import Manager

__all__ = ["CpuManagerLevel"]

TIER = "host"


class CpuManagerLevel(Level):
    """A chunk manager, and the transfers that it planned.

    Setup: ``policy`` (lru, arc), ``chunks``, ``keys`` (how many there are), ``groups`` (KV-cache groups that the keys
    belong to in turn), ``threshold`` (of sightings before a key is stored; 0: none), ``tracker`` (how many keys are
    counted for that), ``events``.
    """

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self._keys: int = setup["keys"]
        self._manager = Manager(setup)
        self._stores: list[tuple[int, list[int], list[int], object]] = []
        self._loads: list[tuple[int, list[int], list[int], object]] = []
        self._contexts: dict[int, object] = {}
        self._computed: set[int] = set()
        self._numbers = 0
        self._events: bool = setup["events"]
        self._told: tuple | None = None
        self.world = {
            "groups": [{"kind": "full", "block": 1}],
            # Each key is computed in a device block of its own, and loaded to another.
            "tiers": {"device": {"blocks": 2 * self._keys, "null": None}, TIER: {"blocks": setup["chunks"]}},
            "hash_block": 1,
            "exact": True,
            "notes": {
                "manager": self._manager.name,
                "sightings": self._manager.sightings,
                "finish": self._manager.ends,
            },
        }

    # ------------------------------------------------------------------------------------------------ operations

    def op_offer(self, args: dict) -> dict:
        """Offer keys to store."""
        keys = self._picked(args)
        context = self._context(args, keys)
        answer = self._manager.prepare_store(keys, context)
        self._tell_events()
        eligible = self._manager.eligible(keys)
        if answer is None:
            return {"refused": True, "eligible": eligible}
        stored, chunks, evicted = answer
        if stored:
            self._compute(stored)
            self._begin(self._stores, stored, chunks, context, store=True)
        return {"store": stored, "chunks": chunks, "evicted": evicted, "eligible": eligible}

    def op_load(self, args: dict) -> dict:
        """Look keys up and load those that are there, in one go as a scheduling step does."""
        keys = self._picked(args)
        context = self._context(args, keys)
        hits = [k for k in keys if self._manager.lookup(k, context)]
        chunks = self._manager.prepare_load(hits, context) if hits else []
        if hits:
            self._begin(self._loads, hits, chunks, context, store=False)
        return {"hits": hits, "chunks": chunks}

    def op_lookup(self, args: dict) -> dict:
        """Look keys up."""
        keys = self._picked(args)
        context = self._context(args, keys)
        return {"hits": [k for k in keys if self._manager.lookup(k, context)]}

    def op_touch(self, args: dict) -> None:
        """Say that keys were used."""
        keys = self._picked(args)
        self._manager.touch(keys, self._context(args, keys))

    def op_stored(self, args: dict):
        """A store ends, well or badly."""
        if not self._stores:
            return self.SKIPPED
        job = self._stores.pop(args.pop("which") % len(self._stores))
        args["keys"] = job[1]
        self._end_store(job, bool(args["ok"]))
        return None

    def op_loaded(self, args: dict):
        """A load ends."""
        if not self._loads:
            return self.SKIPPED
        job = self._loads.pop(args.pop("which") % len(self._loads))
        args["keys"] = job[1]
        self._end_load(job)
        return None

    def op_finish(self, args: dict):
        """A request ends; its transfers may still be under way."""
        if args["request"] not in self._contexts:
            return self.SKIPPED
        self._manager.finish(self._contexts.pop(args["request"]))
        return None

    def op_drain(self, _args: dict) -> dict:
        """All transfers end well, the oldest first."""
        steps = len(self._stores) + len(self._loads)
        for job in self._stores:
            self._end_store(job, True)
        for job in self._loads:
            self._end_load(job)
        self._stores.clear()
        self._loads.clear()
        self._told = None
        return {"left": 0, "pending": 0, "steps": steps}

    def op_reset(self, _args: dict):
        """Forget everything; transfers under way are flushed, and their ends are never told."""
        if not self._manager.reset():
            return self.SKIPPED
        for number, _, _, _ in (*self._stores, *self._loads):
            self.tell("copy", number, "fail", [])
        self._stores.clear()
        self._loads.clear()
        if self._events:
            self.tell("cleared", TIER)
            self.tell("boundary", TIER)
        return True

    def state(self) -> dict | None:
        """Return the entries and counts of the manager, or None where they are the last ones told: it saves time.

        A chunk that is being written has one reference: the store.
        """
        found = self._manager.read()
        if found == self._told:
            return None
        self._told = ref, free, entries = found
        return {
            "pools": {
                TIER: {
                    "ref": ref,
                    "free": None,
                    "num_free": free,
                    "cached": [[k, 0, [chunk]] for k, chunk in entries],
                    "hashes": [[chunk, [[k, 0]]] for k, chunk in entries],
                }
            },
            "holds": {TIER: [chunk for job in (*self._stores, *self._loads) for chunk in job[2]]},
            "pending": len(self._stores) + len(self._loads),
        }

    # --------------------------------------------------------------------------------------------------- helpers

    def _picked(self, args: dict) -> list[int]:
        """The keys of a call: within the alphabet, each once."""
        args["keys"] = keys = list(dict.fromkeys(k % self._keys for k in args["keys"]))
        return keys

    def _context(self, args: dict, keys: list[int]):
        """The request of a slot, which comes when it is first used."""
        slot = args["request"]
        if slot not in self._contexts:
            self._numbers += 1
            self._contexts[slot] = self._manager.context(f"r{self._numbers}")
        context = self._contexts[slot]
        self._manager.position(context, keys)
        return context

    def _compute(self, keys: list[int]) -> None:
        """Only what was computed is stored: each key once, in its own device block."""
        for k in keys:
            if k not in self._computed:
                self._computed.add(k)
                r = f"key {k}"
                self.tell("request", r, {"adapter": None, "salt": None, "items": [], "tokens": [k]})
                self.tell("keys", r, 0, [k])
                self.tell("table", r, 0, 0, [k])
                self.tell("compute", r, 0, [k])
                self.tell("processed", r, 1)
                self.tell("end", r, "finished")

    def _begin(self, jobs: list, keys: list[int], chunks: list[int], context: object, *, store: bool) -> None:
        self._numbers += 1
        jobs.append((self._numbers, keys, chunks, context))
        if store:
            pairs = [["device", k, TIER, chunk] for k, chunk in zip(keys, chunks, strict=True)]
        else:
            pairs = [[TIER, chunk, "device", self._keys + k] for k, chunk in zip(keys, chunks, strict=True)]
        self.tell("copy", self._numbers, "begin", pairs)

    def _end_store(self, job: tuple, ok: bool) -> None:
        number, keys, _, context = job
        self.tell("copy", number, "end" if ok else "fail", [])
        self._manager.complete_store(keys, context, ok)
        self._tell_events()

    def _end_load(self, job: tuple) -> None:
        number, keys, _, context = job
        self.tell("copy", number, "end", [])
        self._manager.complete_load(keys, context)

    def _tell_events(self) -> None:
        if not self._events:
            return
        for removed, keys in self._manager.events():
            if removed:
                self.tell("removed", TIER, None, keys)
            else:
                self.tell("stored", TIER, None, keys, None)
        self.tell("boundary", TIER)

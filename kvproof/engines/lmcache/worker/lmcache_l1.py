"""The level ``l1`` of LMCache: `L1Manager` and its evictions, called as its storage manager and prefetches call it.

Stores and prefetches reserve room, write and finish; a prefetch that is not to be kept is gone with its last reader.
Readers reserve what is there, read and finish. Whoever does not finish in time has crashed, and never comes back.
"""

from types import SimpleNamespace

from lmcache_chunks import TIER, ChunkLevel
from lmcache_l1_setup import LAYOUT, L1Error, evict, listen, made, named
from lmcache_leases import READ, WRITE, Lease, Options
from lmcache_setup import CHUNK, UNIT

__all__ = ["L1Level"]

KEYS = 6
"""Keys that there are."""

STORE = "store"
"""The tag of all stores; a prefetch has one of its own."""


class _Writer:
    """Who has reserved room for keys, until some time."""

    def __init__(self, tag: str, objects: dict[int, object]) -> None:
        self.tag, self.objects, self.end = tag, objects, Lease.now + WRITE


class _Reader:
    """Who reads keys, each so many times at once."""

    def __init__(self, objects: dict[int, object], locks: int) -> None:
        self.objects, self.locks = objects, locks


class L1Level(ChunkLevel):
    """A manager, and who stores, prefetches and reads. ``setup``: see `Options`."""

    def __init__(self, setup: dict) -> None:
        options = Options(setup)
        self._manager, self._evictions = made(options)
        self._allocator = self._manager._memory_manager._allocator
        backend = SimpleNamespace(memory_allocator=self._allocator, hot_cache={})
        super().__init__(options, backend)
        self._writers: list[_Writer] = []
        self._readers: list[_Reader] = []
        self._ends: dict[int, int] = {}
        """Until when what readers of a key have reserved is theirs: each new one begins it anew."""
        self._names = 0
        self._heard: set[int] = set()
        """Keys that the manager says are there, to those that listen: its evictions know of keys by that alone."""
        listen(self._manager, self._heard_of, self._heard_last)

    def do(self, op: str, args: dict):
        """Do an operation; whoever listens knows now what is there."""
        result = super().do(op, args)
        self.tell("boundary", TIER)
        return result

    # ------------------------------------------------------------------------------------------------ operations

    def op_store(self, args: dict) -> dict:
        """A store reserves room."""
        return self._reserve(self._picked(args), STORE, temporary=False)

    def op_prefetch(self, args: dict) -> dict:
        """A prefetch does; with ``keep`` what it fetches is there to stay."""
        self._names += 1
        return self._reserve(self._picked(args), f"prefetch {self._names}", temporary=not args.get("keep"))

    def op_finish(self, args: dict):
        """A store is written, and its keys can be read; of a prefetch they are read at once. With ``failed`` nothing
        was written, and the room is given back."""
        if not self._writers:
            return self.SKIPPED
        writer = self._writers.pop(args.pop("which") % len(self._writers))
        args["tag"], args["keys"] = writer.tag, [*writer.objects]
        keys = [named(k) for k in writer.objects]
        if args.get("failed"):
            told = self._manager.finish_write_and_delete(keys, tag=writer.tag)
            return {"answers": [told[key].name for key in keys]}
        for k, obj in writer.objects.items():
            self._memory.write(obj, self._ran(k), 0)
        if writer.tag == STORE:
            told = self._manager.finish_write(keys, tag=writer.tag)
        else:
            results = self._manager.finish_write_and_reserve_read(keys, tag=writer.tag)
            told = {key: error for key, (error, _) in results.items()}
            self._reads({k: results[named(k)][1] for k in writer.objects if told[named(k)] == L1Error.SUCCESS}, 1)
        self._backend.hot_cache = self._resident()
        self.tell_contents()
        return {"answers": [told[key].name for key in keys]}

    def op_lookup(self, args: dict) -> dict:
        """Readers reserve a prefix of keys, as far as it is there."""
        keys, locks = self._picked(args), 1 + args.get("more", 0) % 2
        results = self._manager.reserve_read([named(k) for k in keys], read_locks=locks)
        found = {k: results[named(k)][1] for k in keys if results[named(k)][0] == L1Error.SUCCESS}
        self._reads(found, locks)
        return {"found": [*found]}

    def op_read(self, args: dict):
        """What was reserved is read, and its readers are done."""
        if not self._readers:
            return self.SKIPPED
        reader = self._readers.pop(args.pop("which") % len(self._readers))
        args["keys"] = [*reader.objects]
        keys = [named(k) for k in reader.objects]
        there = self._manager.unsafe_read(keys)
        for k, obj in reader.objects.items():
            if there[named(k)][1] is obj:
                self._tell_read(k, obj)
        told = self._manager.finish_read(keys, read_locks=reader.locks)
        return {"answers": [told[key].name for key in keys]}

    def op_touch(self, args: dict) -> None:
        """Keys count as used."""
        self._manager.touch_keys([named(k) for k in self._picked(args)])

    def op_delete(self, args: dict) -> dict:
        """Keys are deleted, those that nobody uses."""
        keys = [named(k) for k in self._picked(args)]
        told = self._manager.delete(keys)
        return {"answers": [told[key].name for key in keys]}

    def op_clear(self, _args: dict) -> None:
        """All is cleared that nobody uses."""
        self._manager.clear()

    def op_evict(self, _args: dict) -> dict:
        """A round of evictions. Which keys could have gone, and how much is in use before and after."""
        told = {**self._evictable(), "before": self._used()}
        evict(self._evictions)
        return {**told, "after": self._used()}

    def op_tick(self, args: dict) -> None:
        """Time goes by; who has not finished by then has crashed."""
        Lease.now += 100 * (1 + args.pop("hundreds") % 7)
        args["now"] = Lease.now
        self._writers = [writer for writer in self._writers if Lease.now < writer.end]
        for reader in self._readers:
            reader.objects = {k: obj for k, obj in reader.objects.items() if Lease.now < self._ends[k]}
        self._readers = [reader for reader in self._readers if reader.objects]

    def op_drain(self, _args: dict) -> dict:
        """All writers and readers finish."""
        steps = len(self._writers) + len(self._readers)
        while self._writers:
            self.op_finish({"which": 0})
        while self._readers:
            self.op_read({"which": 0})
        return {"left": 0, "pending": 0, "steps": steps}

    def op_reset(self, args: dict):
        """At rest, and when every time is over, clearing leaves nothing."""
        if self._writers or self._readers:
            return self.SKIPPED
        args["connector"] = True  # What is cached is on the host.
        Lease.now += WRITE + READ
        self._manager.clear()
        return True

    def state(self) -> dict:
        """Return the memory's state, and who holds what by the calls that were made."""
        ref = [1] * self._options.units  # What is neither free nor known was lost.
        blocks = self._allocator.pin_allocator.address_manager._explicit_list
        unused = [unit for b in blocks for unit in range(b.start // UNIT, (b.start + b.size) // UNIT)]
        counts = [(entry.memory_obj, entry.read_lock.count) for entry in self._manager._objects.values()]
        counts += [(entry.memory_obj, entry.write_lock.count) for _, entry in self._staged()]
        for unit in unused:
            ref[unit] = 0
        for obj, count in counts:
            for unit in self._memory.units(obj):
                ref[unit] = count
        able = [unit for obj, count in counts if not count for unit in self._memory.units(obj)]
        held = [obj for writer in self._writers for obj in writer.objects.values()]
        held += [obj for reader in self._readers for obj in reader.objects.values() for _ in range(reader.locks)]
        self._backend.hot_cache = self._resident()
        pool = {"ref": ref, "free": unused + able, "cached": self.cached()}
        return {
            "pools": {TIER: {**pool, "num_free": self._options.units - self._used() + len(able)}},
            "holds": {TIER: [unit for obj in held for unit in self._memory.units(obj)]},
            "pending": len(self._writers) + len(self._readers),
        }

    def place(self, part) -> tuple[int, int]:
        """The number of a key, and the tokens of its chunk."""
        return int.from_bytes(part.chunk_hash, "big"), CHUNK

    # --------------------------------------------------------------------------------------------------- helpers

    def _heard_of(self, keys: list) -> None:
        for k in [self.place(key)[0] for key in keys]:
            self._heard.add(k)
            self.tell("stored", TIER, None, list(range(k * CHUNK, (k + 1) * CHUNK)), None)

    def _heard_last(self, keys: list) -> None:
        """Keys are gone; of those that were reserved, and never there, nothing is told."""
        for k in [self.place(key)[0] for key in keys]:
            if k in self._heard:
                self._heard.remove(k)
                self.tell("removed", TIER, None, list(range(k * CHUNK, (k + 1) * CHUNK)))

    def _picked(self, args: dict) -> list[int]:
        args["keys"] = keys = list(dict.fromkeys(k % KEYS for k in args["keys"]))
        return keys

    def _resident(self) -> dict:
        return {key: entry.memory_obj for key, entry in self._manager._objects.items()}

    def _staged(self) -> list[tuple]:
        return [(key, entry) for key, tags in self._manager._staging.items() for entry in tags.values()]

    def _used(self) -> int:
        return self._manager.get_memory_usage()[0] // UNIT

    def _evictable(self) -> dict[str, list[int]]:
        """Keys that can go, as `L1Manager.delete` says: those that nobody reads or writes, and abandoned writes."""
        live = {key for key, entry in self._staged() if entry.write_lock.is_locked()}
        abandoned = {key for key, entry in self._staged() if not entry.write_lock.is_locked()}
        idle = {k for k, entry in self._manager._objects.items() if k not in live and not entry.read_lock.is_locked()}
        return {
            "idle": sorted(self.place(key)[0] for key in idle),
            "abandoned": sorted(self.place(key)[0] for key in abandoned),
        }

    def _reserve(self, keys: list[int], tag: str, temporary: bool) -> dict:
        results = self._manager.reserve_write([named(k) for k in keys], [temporary] * len(keys), LAYOUT, tag=tag)
        got = {k: results[named(k)][1] for k in keys if results[named(k)][0] == L1Error.SUCCESS}
        if got:
            self._writers.append(_Writer(tag, got))
        return {"answers": [results[named(k)][0].name for k in keys]}

    def _reads(self, objects: dict[int, object], locks: int) -> None:
        self._ends |= dict.fromkeys(objects, Lease.now + READ)
        if objects:
            self._readers.append(_Reader(objects, locks))

    def _request(self, k: int) -> tuple[str, list[int]]:
        """A request of a chunk's tokens runs. Its name, and its pass's stamps."""
        self._names += 1
        r = f"r{self._names}"
        self.tell("request", r, {"tokens": [k] * CHUNK})
        self.tell("keys", r, 0, list(range(k * CHUNK, (k + 1) * CHUNK)))
        return r, self.ran(r, 0, [k] * CHUNK)

    def _ran(self, k: int) -> list[int]:
        """A forward pass computes a chunk; its stamps."""
        r, stamps = self._request(k)
        self.tell("end", r, "finished")
        return stamps

    def _tell_read(self, k: int, obj) -> None:
        """A forward pass reads a chunk."""
        r, _ = self._request(k)
        self.tell("read", r, 0, self._memory.read(obj, 0)[0])
        self.tell("end", r, "finished")

"""The level ``offload`` of LMCache: `LocalCPUBackend` and its memory, called as the release's engine calls them.

Stores allocate, write and put; layer by layer, other calls may come between the layers. Lookups pin what they find and
touch it; whoever looked up gets what was found, reads it, and unpins it. Keys are small numbers, chunks are the tokens
that they name.
"""

from lmcache_chunks import ChunkLevel
from lmcache_setup import CHUNK, REMOVAL_UNPINS, Options, made, named

__all__ = ["OffloadLevel"]


class OffloadLevel(ChunkLevel):
    """A backend, and who stores, looks up and reads. ``setup``: see `Options`."""

    def __init__(self, setup: dict) -> None:
        options = Options(setup)
        super().__init__(options, made(options))
        self._stores: list[tuple[list[int], list[list]]] = []
        """Keys, and per layer (or once) the objects that are not put yet."""
        self._lookups: list[list[tuple[int, object, object]]] = []
        """Key, the release's key, and the object that was pinned; None when a removal took the pin."""
        self._loads: list[list] = []
        self._names = 0

    # ------------------------------------------------------------------------------------------------ operations

    def op_store(self, args: dict):
        """Store chunks as `LMCacheEngine.store` or `store_layer` does; with ``later`` nothing is put yet."""
        keys = self._picked(args)
        taken, objects, refused, in_need = [], [], None, []
        for k in keys:
            if self._options.layers and self._backend.contains(self._parts(k)[0]):
                continue
            if not self._memory.fits(self._options.sizes[k], len(self._parts(k))):
                in_need.append(k)
            found = self._allocate(self._options.sizes[k])
            if found is None:
                refused = k
                break
            taken.append(k)
            objects.append(found)
        for k, found in zip(taken, objects, strict=True):
            self._fill(k, found)
        if taken:
            self._stores.append((taken, [list(row) for row in zip(*objects, strict=True)]))
            while not args.get("later") and self._stores and self._stores[-1][0] is taken:
                self._put(self._stores[-1])
        self.tell_contents()
        return {"taken": taken, "refused": refused, "in_need": in_need}

    def op_put(self, args: dict):
        """A store that is under way puts its next layer, or all."""
        if not self._stores:
            return self.SKIPPED
        store = self._stores[args.pop("which") % len(self._stores)]
        args["keys"], args["layer"] = store[0], self._layer(store)
        self._put(store)
        self.tell_contents()
        return None

    def op_lookup(self, args: dict):
        """Look a prefix up, pin it and touch it. With ``remove`` somebody clears it meanwhile."""
        keys = self._picked(args)
        hits, pins = [], []
        for k in keys:
            parts = self._parts(k)
            found = self._backend.batched_contains(parts, True)
            if found < len(parts):
                for part in parts[:found]:
                    self._backend.unpin(part)
                break
            hits.append(k)
            pins += [(k, part, self._backend.hot_cache[part]) for part in parts]
        if hits:
            self._lookups.append(pins)
        if hits and args.get("remove") and not self._options.layers:
            self._remove(hits)
        self._backend.touch_cache()
        return {"hits": hits}

    def op_load(self, args: dict):
        """Get what a lookup has found and read it; the objects are held until `loaded`."""
        if not self._lookups:
            return self.SKIPPED
        lookup = self._lookups[args.pop("which") % len(self._lookups)]
        args["keys"] = keys = list(dict.fromkeys(k for k, _, _ in lookup))
        got = self._get(keys)
        for k, objects in got:
            self._tell_read(k, objects)
        if got:
            self._loads.append([obj for _, objects in got for obj in objects])
        return {"got": [k for k, _ in got]}

    def op_loaded(self, args: dict):
        """Let go of what was got."""
        if not self._loads:
            return self.SKIPPED
        for obj in self._loads.pop(args.pop("which") % len(self._loads)):
            obj.ref_count_down()
        return None

    def op_unpin(self, args: dict):
        """Who looked up lets go of what was found, by its keys, as `LMCacheEngine.lookup_unpin` does."""
        if not self._lookups:
            return self.SKIPPED
        self._unpin(args.pop("which") % len(self._lookups))
        return None

    def op_remove(self, args: dict):
        """Chunks are cleared, whoever uses them: `LMCacheEngine.clear` of some tokens. Of single layers it is not."""
        if self._options.layers:
            return self.SKIPPED
        return self._remove(self._picked(args))

    def op_clear(self, _args: dict) -> dict:
        """All is cleared that nobody uses: of how many tokens, as the backend says, and as its map shows."""
        before = list(self._backend.hot_cache)
        told = self._backend.clear()
        gone = [part for part in before if part not in self._backend.hot_cache]
        return {"told": told, "gone": sum(self.place(part)[1] for part in gone)}

    def op_drain(self, _args: dict) -> dict:
        """All stores are put, all that was got or pinned is let go."""
        steps = len(self._stores) + len(self._loads) + len(self._lookups)
        while self._stores:
            self._put(self._stores[0])
        while self._loads:
            self.op_loaded({"which": 0})
        while self._lookups:
            self._unpin(0)
        self.tell_contents()
        return {"left": 0, "pending": 0, "steps": steps}

    def op_reset(self, args: dict):
        """At rest, clearing leaves nothing."""
        if self._stores or self._loads or self._lookups:
            return self.SKIPPED
        args["connector"] = True  # What is cached is on the host.
        self._backend.clear()
        return True

    def state(self) -> dict:
        """Return the memory's state, and who holds what by the calls that were made."""
        held = [obj for _, rows in self._stores for row in rows for obj in row]
        held += [obj for load in self._loads for obj in load]
        held += [obj for lookup in self._lookups for _, _, obj in lookup if obj is not None]
        return {**self.pool(held), "pending": len(self._stores) + len(self._loads)}

    def place(self, part) -> tuple[int, int]:
        """The number of a key, and the tokens of its chunk."""
        k = part.chunk_hash - 1
        return k, self._options.sizes[k]

    # --------------------------------------------------------------------------------------------------- helpers

    def _picked(self, args: dict) -> list[int]:
        args["keys"] = keys = list(dict.fromkeys(k % len(self._options.sizes) for k in args["keys"]))
        return keys

    def _parts(self, k: int) -> list:
        """The release's keys of a chunk: one, or one a layer."""
        return named(k).split_layers(self._options.layers) if self._options.layers else [named(k)]

    def _allocate(self, tokens: int) -> list | None:
        shapes, dtypes = self._options.shapes(tokens), self._options.dtypes
        if self._options.layers:
            return self._backend.batched_allocate(shapes[0], dtypes[0], self._options.layers, busy_loop=False)
        obj = self._backend.allocate(shapes, dtypes, busy_loop=False)
        return None if obj is None else [obj]

    def _put(self, store: tuple[list[int], list[list]]) -> None:
        (keys, rows), layer = store, self._layer(store)
        objects = rows.pop(0)
        if not rows:
            # By identity: two stores of the same keys are two.
            self._stores = [other for other in self._stores if other is not store]
        self._backend.batched_submit_put_task([self._parts(k)[layer] for k in keys], objects)
        for obj in objects:
            obj.ref_count_down()

    def _layer(self, store: tuple[list[int], list[list]]) -> int:
        """The layer that a store puts next; 0 where there are none."""
        keys, rows = store
        return len(self._parts(keys[0])) - len(rows)

    def _get(self, keys: list[int]) -> list[tuple[int, list]]:
        """Get chunks up to the first that is gone."""
        if not self._options.layers:
            got = list(zip(keys, self._backend.batched_get_blocking([named(k) for k in keys]), strict=True))
            end = next((n for n, (_, obj) in enumerate(got) if obj is None), len(got))
            for _, obj in got[end:]:
                if obj is not None:
                    obj.ref_count_down()
            return [(k, [obj]) for k, obj in got[:end]]
        there = []
        for k in keys:
            if not self._backend.contains(self._parts(k)[0]):
                break
            there.append(k)
        rows = [self._got([self._parts(k)[n] for k in there]) for n in range(self._options.layers)]
        return list(zip(there, map(list, zip(*rows, strict=True)), strict=True))

    def _got(self, parts: list) -> list:
        """What the release's coroutine returns; it waits for nothing."""
        try:
            self._backend.batched_get_non_blocking("lookup", parts).send(None)
        except StopIteration as done:
            return done.value
        raise RuntimeError("batched_get_non_blocking waits for something")

    def _unpin(self, which: int) -> None:
        for _, part, _ in self._lookups.pop(which):
            self._backend.unpin(part)

    def _remove(self, keys: list[int]) -> int:
        """Remove chunks by force; that lets go of all their pins, as `LocalCPUBackend.remove` says since 0.5.6."""
        there = [self._backend.hot_cache.get(named(k)) for k in keys] if REMOVAL_UNPINS else []
        gone = {id(obj) for obj in there if obj is not None}
        self._lookups = [
            [(k, part, None if id(obj) in gone else obj) for k, part, obj in lookup] for lookup in self._lookups
        ]
        return self._backend.batched_remove([named(k) for k in keys])

    # ---------------------------------------------------------------------------------------------------- telling

    def _request(self, k: int) -> tuple[str, list[int]]:
        """A request of a chunk's tokens runs; its keys name the chunk's tokens. Its name, and its pass's stamps."""
        size = self._options.sizes[k]
        self._names += 1
        r = f"r{self._names}"
        self.tell("request", r, {"tokens": [k] * size})
        self.tell("keys", r, 0, list(range(k * CHUNK, k * CHUNK + size)))
        return r, self.ran(r, 0, [k] * size)

    def _fill(self, k: int, objects: list) -> None:
        """A forward pass computes a chunk, and it is copied into its objects."""
        r, stamps = self._request(k)
        self.tell("end", r, "finished")
        for layer, obj in enumerate(objects):
            self._memory.write(obj, stamps, layer)

    def _tell_read(self, k: int, objects: list) -> None:
        """A forward pass reads what was got for a chunk."""
        r, _ = self._request(k)
        stamps = [row for layer, obj in enumerate(objects) for row in self._memory.read(obj, layer)]
        for g, row in enumerate(stamps):
            self.tell("read", r, g, row)
        self.tell("end", r, "finished")

"""The level ``engine`` of LMCache: `LMCacheEngine`, called as the release's own connector for vLLM calls it.

A request arrives and is looked up, which pins what is found. A pass is a round of the server: what was found is loaded,
each request is computed behind it, and is stored; layer by layer, where chunks are. Between any two of these calls
another thread of the server may look up, clear, freeze.
"""

from collections import Counter
from itertools import takewhile

import torch
from lmcache_chunks import ChunkLevel
from lmcache_served import Options, made, run
from lmcache_setup import CHUNK, REMOVAL_UNPINS
from prompts import tokens_of

__all__ = ["EngineLevel"]

LONGEST = 14
"""Tokens of a prompt."""


class _Request:
    """A request of the server."""

    def __init__(self, name: str, tokens: list[int], chunks: list[tuple[int, int, int]], groups: int) -> None:
        self.name = name
        self.tokens = tokens
        self.chunks = chunks
        """Start, end and hash of each."""
        self.skip = 0
        """Tokens that the server has on its device."""
        self.hits: int | None = None
        """Tokens that a lookup found; None while it is under way."""
        self.rows = [[-1] * len(tokens) for _ in range(groups)]
        """Its KV on the device: the stamps of each layer."""
        self.pins: list[tuple[object, object]] = []
        """The release's keys and objects that its lookup has pinned."""
        self.held: list = []
        """Objects that a load of its has taken."""
        self.storing: list[list] = []
        """Objects of a store under way that are not put yet, per layer."""
        self.loading: list[list] = []
        """The release's keys that a load under way gets, per layer."""
        self.round = 0
        """How often that load went on."""
        self.taken: list[int] = []
        """Where the chunks start that a store has got memory for."""
        self.retriever = None
        self.storer = None


class EngineLevel(ChunkLevel):
    """An engine, and the server before it. ``setup``: see `Options`."""

    def __init__(self, setup: dict) -> None:
        options = Options(setup)
        self._engine = made(options, self)
        super().__init__(options, self._engine.storage_manager.local_cpu_backend)
        self._engine.gpu_connector.memory = self._memory
        self._numbers: dict[int, tuple[int, int]] = {}
        """Per hash of a chunk its number, and its tokens."""
        self._history: list[list[int]] = []
        self._waiting: list[_Request] = []
        self._pass: list[_Request] = []
        self._layer = 0

    # ------------------------------------------------------------------------------------------------ operations

    def op_arrive(self, args: dict) -> dict:
        """A request comes and is looked up; of its first tokens the server has the KV already."""
        tokens = tokens_of(args, self._history, LONGEST)
        self._history.append(tokens)
        request = _Request(f"r{len(self._history)}", tokens, self._chunks(tokens), self._options.groups)
        self.tell("request", request.name, {"tokens": tokens})
        self.tell("keys", request.name, 0, [key for _, _, h in request.chunks for key in self._keys(h)])
        request.skip = min(args.get("skip", 0), len(tokens) - 1)
        if request.skip:
            self._compute(request, 0, request.skip)
        self._waiting.append(request)
        hashes, offsets = [h for _, _, h in request.chunks], [end - start for start, end, _ in request.chunks]
        if not hashes:
            request.hits = 0
        elif self._options.prefetch:
            self._engine.async_lookup_and_prefetch(request.name, hashes=hashes, offsets=offsets, pin=True)
            if not args.get("later"):
                run(self._engine.storage_manager.loop)
        else:
            self._found(request, self._engine.lookup(hashes=hashes, offsets=offsets, lookup_id=request.name, pin=True))
        return {"chunks": [self._numbers[h][0] for h in hashes], "sizes": offsets, "hits": request.hits}

    def op_pump(self, _args: dict):
        """Lookups that are under way come to an end."""
        if all(request.hits is not None for request in self._waiting):
            return self.SKIPPED
        run(self._engine.storage_manager.loop)
        return None

    def op_begin(self, args: dict):
        """A pass begins: what was found of some requests, in turn or not, is loaded, and the rest is computed."""
        ready = [request for request in self._waiting if request.hits is not None]
        if self._pass or not ready:
            return self.SKIPPED
        first = args.get("first", 0) % len(ready)
        ready = ready[first:] + ready[:first]
        self._pass, self._layer = ready[: 1 + args.get("count", 0) % 3], 0
        self._waiting = [request for request in self._waiting if request not in self._pass]
        args["requests"] = [request.name for request in self._pass]
        for request in self._pass:
            self._load(request)
        return None

    def op_layer(self, _args: dict):
        """The pass goes a layer on."""
        if not self._pass or self._layer >= self._options.layers:
            return self.SKIPPED
        released = self._pinned()
        return {**self._go_on(), "released": released}

    def op_finish(self, _args: dict):
        """The pass goes to its end, and what is new is stored."""
        if not self._pass:
            return self.SKIPPED
        told = {"released": self._pinned()}
        while self._layer < self._options.layers:
            told |= self._go_on()
        for request in self._pass:
            if request.storer is not None:
                self._next_of_store(request)
            self._unpin(request)
            if not self._options.layers:
                self._store(request)
        if not self._options.layers:
            told |= self._stored()
        for request in self._pass:
            for g, row in enumerate(request.rows):
                self.tell("read", request.name, g, row)
            self.tell("end", request.name, "finished")
        self._pass = []
        self.tell_contents()
        return told

    def op_abort(self, args: dict):
        """A request that waits goes away; its lookup is undone."""
        ready = [request for request in self._waiting if request.hits is not None]
        if not ready:
            return self.SKIPPED
        request = ready[args.pop("which") % len(ready)]
        args["request"] = request.name
        self._waiting.remove(request)
        self._unpin(request)
        self.tell("end", request.name, "aborted")
        return None

    def op_clear(self, args: dict) -> dict:
        """The chunks of some tokens are cleared, whoever has pinned them; or all that nobody uses."""
        if "runs" not in args:
            return {"removed": self._engine.clear(), "chunks": None}
        tokens = tokens_of(args, self._history, LONGEST)
        chunks = self._chunks(tokens)
        removed = self._engine.clear(tokens)
        hashes = {h for _, _, h in chunks}
        for request in (*self._waiting, *self._pass) if REMOVAL_UNPINS else ():
            request.pins = [
                (part, obj)
                for part, obj in request.pins
                if part.chunk_hash not in hashes or self._backend.hot_cache.get(part) is obj
            ]
        return {"removed": removed, "chunks": [self._numbers[h][0] for _, _, h in chunks]}

    def op_freeze(self, args: dict) -> None:
        """Nothing is stored any more; or it is again."""
        self._engine.freeze(bool(args["on"]))

    def op_drain(self, _args: dict) -> dict:
        """All requests are served."""
        steps = 0
        while self._waiting or self._pass:
            steps += 1
            self.op_pump({})
            self.op_begin({})
            self.op_finish({})
        return {"left": 0, "pending": 0, "steps": steps}

    def op_reset(self, args: dict):
        """At rest, clearing leaves nothing."""
        if self._waiting or self._pass:
            return self.SKIPPED
        args["connector"] = True  # What is cached is on the host.
        self._engine.clear()
        return True

    def state(self) -> dict:
        """Return the memory's state, and who holds what by the calls that were made."""
        requests = [*self._waiting, *self._pass]
        held = [obj for request in requests for _, obj in request.pins]
        held += [obj for request in requests for obj in request.held]
        held += [obj for request in requests for row in request.storing for obj in row]
        return {
            **self.pool(held),
            "waiting": len(self._waiting),
            "running": len(self._pass),
            "pending": len(requests),
        }

    def place(self, part) -> tuple[int, int]:
        """The number of a chunk, and its tokens."""
        return self._numbers[part.chunk_hash]

    def send_response_to_scheduler(self, lookup_id: str, retrieved_length: int) -> None:
        """A prefetch has found so many tokens, and holds them."""
        request = next(request for request in self._waiting if request.name == lookup_id)
        self._found(request, retrieved_length)
        request.held = [obj for _, obj in request.pins]

    # --------------------------------------------------------------------------------------------------- helpers

    def _chunks(self, tokens: list[int]) -> list[tuple[int, int, int]]:
        """Start, end and hash of each of the release's chunks."""
        found = list(self._engine.token_database.process_tokens(tokens, make_key=False))
        for start, end, h in found:
            self._numbers.setdefault(h, (len(self._numbers), end - start))
        return found

    def _keys(self, h: int) -> range:
        n, size = self._numbers[h]
        return range(n * CHUNK, n * CHUNK + size)

    def _parts(self, request: _Request, first: int, end: int) -> list[list]:
        """The release's keys of a request's chunks between two positions: per chunk one, or one a layer."""
        make, layers = self._engine.token_database._make_key_by_hash, self._options.layers
        keys = [make(h) for start, stop, h in request.chunks if first <= start and stop <= end]
        return [key.split_layers(layers) if layers else [key] for key in keys]

    def _compute(self, request: _Request, start: int, end: int) -> None:
        stamps = self.ran(request.name, start, request.tokens[start:end])
        for row in request.rows:
            row[start:end] = stamps

    def _found(self, request: _Request, hits: int) -> None:
        request.hits = hits
        parts = [part for chunk in self._parts(request, 0, hits) for part in chunk]
        request.pins = [(part, self._backend.hot_cache.get(part)) for part in parts]

    def _pinned(self) -> list[int]:
        """Numbers of the chunks that requests of the pass have pinned, and let go of before it ends."""
        return [self.place(part)[0] for request in self._pass for part, _ in request.pins]

    def _unpin(self, request: _Request) -> None:
        """Let go of what a lookup has found, as it ends."""
        self._engine.lookup_unpin(request.name)
        request.pins, request.held = [], []

    def _load(self, request: _Request) -> None:
        """As `start_load_kv` of the connector does, with the spec of `get_num_new_matched_tokens`."""
        hits, size = request.hits, len(request.tokens)
        start = request.skip
        if hits - (hits == size) > request.skip:
            first = request.skip // CHUNK * CHUNK
            mask = torch.ones(hits, dtype=torch.bool)
            mask[:first] = False
            end = self._begin_loading(request, mask) if self._options.layers else self._retrieve(request, mask)
            start = max(request.skip, min(end, size - 1))
        self._compute(request, start, size)

    def _retrieve(self, request: _Request, mask: torch.Tensor) -> int:
        """Load whole chunks; return where what was loaded ends."""
        tokens = request.tokens[: request.hits]
        got = self._engine.retrieve(tokens, mask, kvcaches=request, slot_mapping=None, req_id=request.name)
        if self._options.prefetch:
            request.pins, request.held = [], []
        else:
            self._unpin(request)
        return int(len(mask) - mask.sum() + got.sum())

    def _begin_loading(self, request: _Request, mask: torch.Tensor) -> int:
        """Begin to load layers; the first one is on its way then."""
        parts = self._parts(request, int(len(mask) - mask.sum()), request.hits)
        # A load ends at the first chunk that is gone.
        there = list(takewhile(lambda chunk: chunk[0] in self._backend.hot_cache, parts))
        request.loading = [[chunk[layer] for chunk in there] for layer in range(self._options.layers)]
        request.retriever = self._engine.retrieve_layer(
            request.tokens[: request.hits], mask, kvcaches=request, slot_mapping=None, sync=True
        )
        self._next_of_load(request)
        self._next_of_load(request)
        return request.hits

    def _next_of_load(self, request: _Request) -> None:
        """The load goes on. Each layer is taken once it is asked for; all are let go of after the last one."""
        next(request.retriever)
        run(self._engine.storage_manager.loop)
        request.round += 1
        if request.round <= self._options.layers:
            there = [self._backend.hot_cache.get(part) for part in request.loading[request.round - 1]]
            request.held += [obj for obj in there if obj is not None]
        elif request.round == self._options.layers + 1:
            request.held = []
        else:
            self._end_load(request)

    def _end_load(self, request: _Request) -> None:
        """A load may let go of its lookup's pins or leave that to `lookup_unpin`; another's it may not."""
        loaded = {part for row in request.loading for part in row}
        pins = Counter(id(obj) for other in (*self._waiting, *self._pass) for _, obj in other.pins)
        request.pins = [
            (part, obj)
            for part, obj in request.pins
            if part not in loaded or obj is None or obj.meta.pin_count >= pins[id(obj)]
        ]

    def _go_on(self) -> dict:
        """A layer: as `wait_for_layer_load` and `save_kv_layer` of the connector do."""
        for request in self._pass:
            if request.retriever is not None:
                self._next_of_load(request)
        for request in self._pass:
            if self._layer == 0:
                self._store(request)
            elif request.storer is not None:
                self._next_of_store(request)
        self._layer += 1
        self.tell_contents()
        return self._stored() if self._layer == 1 else {}

    @staticmethod
    def _next_of_store(request: _Request) -> None:
        next(request.storer)
        request.storing = request.storing[1:]

    def _store(self, request: _Request) -> None:
        """Store what was not found, whole or as far as its first layer."""
        if request.hits == len(request.tokens):
            return
        first = request.hits // CHUNK * CHUNK
        mask = torch.ones(len(request.tokens), dtype=torch.bool)
        mask[:first] = False
        store = self._engine.store_layer if self._options.layers else self._engine.store
        request.storer = store(
            request.tokens, mask=mask, kvcaches=request, slot_mapping=None, offset=first, sync=True, req_id=request.name
        )
        if request.storer is not None:
            next(request.storer)

    def _stored(self) -> dict:
        """Numbers of the chunks that the pass was to store, and of those that got memory."""
        frozen = self._engine.is_frozen()
        wanted = [
            (self._numbers[h][0], start in request.taken)
            for request in self._pass
            if not frozen
            for start, _, h in request.chunks
            if start >= request.hits // CHUNK * CHUNK and request.hits < len(request.tokens)
        ]
        return {"wanted": [n for n, _ in wanted], "taken": [n for n, got in wanted if got]}

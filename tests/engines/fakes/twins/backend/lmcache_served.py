"""In place of the release's engine: chunks of requests, found, loaded and stored, under the same calls.

Who looks up has the objects that it found, whatever becomes of their keys.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile
from types import SimpleNamespace

import torch
from chunk_memory import CHUNK, Object
from lmcache_setup import Backend, Key
from lmcache_setup import Options as BackendOptions

__all__ = ["Engine", "Options", "made", "run"]


class Options(BackendOptions):
    """A setup of LMCache's level, and ``fault``."""

    def __init__(self, setup: dict) -> None:
        super().__init__(setup)
        self.partial, self.prefetch = bool(setup.get("partial")), bool(setup.get("prefetch"))


class Tokens:
    """Cuts tokens into chunks, each with a hash of its tokens and of all before them."""

    def __init__(self, options: Options) -> None:
        self._partial, self._fault = options.partial, options.fault

    def process_tokens(self, tokens: list[int], *, make_key: bool) -> Iterator[tuple[int, int, int]]:
        """Start, end and hash of each chunk."""
        h, whole = 0, len(tokens) // CHUNK * CHUNK
        for start in range(0, len(tokens) if self._partial else whole, CHUNK):
            chunk = tokens[start : start + CHUNK]
            h = hash((0 if self._fault == "any prefix" else h, *chunk))
            yield start, start + len(chunk), h

    def _make_key_by_hash(self, h: int) -> Key:
        return Key(h)


class Engine:
    """An engine, and what its lookups have found."""

    def __init__(self, options: Options, answers) -> None:
        self._options, self._answers = options, answers
        self._backend = Backend(options)
        self._calls: list[Callable[[], None]] = []
        self.storage_manager = SimpleNamespace(local_cpu_backend=self._backend, loop=self._calls)
        self.token_database = Tokens(options)
        self.gpu_connector = SimpleNamespace(memory=None)
        self._lookups: dict[str, list[tuple[Key, Object]]] = {}
        self._frozen = False

    def freeze(self, on: bool) -> None:
        """Nothing is stored while it is on."""
        self._frozen = on

    def is_frozen(self) -> bool:
        """Whether it is."""
        return self._frozen

    def clear(self, tokens: list[int] | None = None) -> int:
        """All goes that nobody uses; or the chunks of these tokens, which those who found them still have."""
        if tokens is None:
            return self._backend.clear()
        parts = [part for _, _, key in self._chunks(tokens, 0) for part in self._parts(key)]
        there = [part for part in dict.fromkeys(parts) if part in self._backend.hot_cache]
        if self._options.fault == "clears a layer":
            there = [part for part in there if not part.layer_id]
        for part in there:
            self._backend.hot_cache.pop(part).ref_count_down()
        return len(there)

    # Lookups.

    def lookup(self, hashes: list[int], offsets: list[int], lookup_id: str, pin: bool) -> int:
        """How many tokens are there, with all layers; their objects are pinned."""
        found, tokens = self._lookups.setdefault(lookup_id, []), 0
        for h, count in zip(hashes, offsets, strict=True):
            parts = self._parts(Key(h))
            there = [(part, self._backend.hot_cache[part]) for part in parts if part in self._backend.hot_cache]
            if len(there) == len(parts) or self._options.fault == "pins some layers":
                for _, obj in there:
                    obj.meta.pin_count += 1
            if len(there) < len(parts):
                break
            found += there
            tokens += count
        return tokens

    def async_lookup_and_prefetch(self, lookup_id: str, hashes: list[int], offsets: list[int], pin: bool) -> None:
        """The same later; then the request has what is found, and not its pins alone."""

        def found() -> None:
            tokens = self.lookup(hashes, offsets, lookup_id, pin)
            for _, obj in self._lookups[lookup_id]:
                obj.ref_count_up()
            self._answers.send_response_to_scheduler(lookup_id, tokens)

        self._calls.append(found)

    def lookup_unpin(self, lookup_id: str) -> None:
        """A request lets go of what it has found."""
        for _, obj in self._lookups.pop(lookup_id, []):
            obj.unpin()
            if self._options.prefetch:
                obj.ref_count_down()

    # Loads.

    def retrieve(self, tokens: list[int], mask: torch.Tensor, kvcaches, slot_mapping, req_id: str) -> torch.Tensor:
        """Load what was found, behind what is masked. Who has prefetched lets go of it."""
        found, got = dict(self._lookups[req_id]), torch.zeros(len(tokens), dtype=torch.bool)
        for start, end, key in self._chunks(tokens, _masked(mask)):
            kvcaches.rows[0][start:end] = self.gpu_connector.memory.read(found[key], 0)[0]
            got[start:end] = True
        if self._options.prefetch:
            self.lookup_unpin(req_id)
        if self._options.fault == "lets go twice":
            for obj in found.values():
                obj.unpin()
        return got

    def retrieve_layer(self, tokens: list[int], mask: torch.Tensor, kvcaches, slot_mapping, sync: bool) -> Iterator:
        """Load it a layer a round. What is cached is taken until all layers are; what was cleared is pinned yet."""
        chunks, found, taken = self._chunks(tokens, _masked(mask)), dict(self._lookups[kvcaches.name]), []
        cached = self._backend.hot_cache
        there = [*takewhile(lambda key: self._parts(key)[0] in cached, [key for _, _, key in chunks])]
        for layer in range(self._options.layers):
            for part in [self._parts(key)[layer] for key in there]:
                if part in cached:
                    cached[part].ref_count_up()
                    taken.append(cached[part])
            yield
            for start, end, key in chunks:
                obj = found[self._parts(key)[layer]]
                kvcaches.rows[layer][start:end] = self.gpu_connector.memory.read(obj, layer)[0]
        for obj in taken:
            obj.ref_count_down()
        yield
        yield

    # Stores.

    def store(
        self, tokens: list[int], mask: torch.Tensor, kvcaches, slot_mapping, offset: int, sync: bool, req_id: str
    ):
        """Store the chunks behind what is masked, as far as there is room."""
        chunks, rows = self._room(tokens, mask, kvcaches)
        self._write(chunks, rows, kvcaches, 0)
        self._put(chunks, rows, 0)

    def store_layer(
        self, tokens: list[int], mask: torch.Tensor, kvcaches, slot_mapping, offset: int, sync: bool, req_id: str
    ) -> Iterator[None]:
        """The same a layer a round: each is written, and put in the next round."""
        chunks, rows = self._room(tokens, mask, kvcaches)
        kvcaches.storing = [*rows]
        for layer in range(self._options.layers):
            self._write(chunks, rows, kvcaches, layer)
            yield
            self._put(chunks, rows, layer)
        yield

    def _room(self, tokens: list[int], mask: torch.Tensor, request) -> tuple[list[tuple[int, int, Key]], list[list]]:
        """The chunks that are not there and have got memory, and for each layer their objects."""
        chunks, objects = [], []
        for start, end, key in [] if self._frozen else self._chunks(tokens, _masked(mask)):
            parts, shape = self._parts(key), self._options.shapes(end - start)[0]
            if parts[0] in self._backend.hot_cache:
                continue
            got = self._backend.batched_allocate(shape, torch.float32, len(parts))
            if got is None:
                break
            chunks.append((start, end, key))
            objects.append(got)
        request.taken = [start for start, _, _ in chunks]
        return chunks, [list(row) for row in zip(*objects, strict=True)]

    def _write(self, chunks: list[tuple[int, int, Key]], rows: list[list], request, layer: int) -> None:
        for (start, end, _), obj in zip(chunks, rows[layer] if rows else [], strict=True):
            self.gpu_connector.memory.write(obj, request.rows[layer][start:end], layer)

    def _put(self, chunks: list[tuple[int, int, Key]], rows: list[list], layer: int) -> None:
        objects = rows[layer] if rows else []
        self._backend.batched_submit_put_task([self._parts(key)[layer] for _, _, key in chunks], objects)
        for obj in objects:
            obj.ref_count_down()

    def _chunks(self, tokens: list[int], first: int) -> list[tuple[int, int, Key]]:
        """Start, end and key of each chunk from a position on."""
        found = self.token_database.process_tokens(tokens, make_key=False)
        return [(start, end, Key(h)) for start, end, h in found if start >= first]

    def _parts(self, key: Key) -> list[Key]:
        return key.split_layers(self._options.layers) if self._options.layers else [key]


def _masked(mask: torch.Tensor) -> int:
    return int(len(mask) - mask.sum())


def made(options: Options, answers) -> Engine:
    """An engine, and nothing cached; ``answers`` is told what a prefetch has found."""
    return Engine(options, answers)


def run(calls: list[Callable[[], None]]) -> None:
    """What was to be done later is done."""
    while calls:
        calls.pop(0)()

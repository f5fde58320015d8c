"""The example's host tier (docs/examples/block-pool/offload.py) with a fault each; and a mirror, with its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from kvproof.testing import BlockManager, Request

from . import pool_faults

from offload import Copies, Offload  # isort: skip # pool_faults puts its folder on the path
from pool import Pool  # isort: skip
import test_offload as example  # isort: skip

assert pool_faults.EXAMPLE


class StoresWithoutHold(Offload):
    """The device's block may be handed out while it is copied."""

    def store(self, keys: Iterable[bytes], blocks: Sequence[int]) -> tuple[list[bytes], Copies]:
        begun, copies = super().store(keys, blocks)
        for block, _ in copies:
            self.pool.give_back(self.pool.blocks[block])
        return begun, copies

    def stored(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.pool.touch(self.pool.blocks[self.storing[key][0]])
            super().stored([key])


class RegistersEarly(Offload):
    """What is being stored can be found."""

    def store(self, keys: Iterable[bytes], blocks: Sequence[int]) -> tuple[list[bytes], Copies]:
        begun, copies = super().store(keys, blocks)
        self.cached.update((key, self.storing[key][1]) for key in begun)
        return begun, copies


class StoresAgain(Offload):
    """What is there is stored once more, to another block."""

    def store(self, keys: Iterable[bytes], blocks: Sequence[int]) -> tuple[list[bytes], Copies]:
        keys = [*keys]
        begun, copies = super().store(keys, blocks)
        for key, block in zip(keys, blocks, strict=False):
            if key in self.storing and key not in begun and self.free:
                host = self.free[0]
                copies.append((block, host))
        return begun, copies


class ForgetsWhatIsThere(Offload):
    """What was stored before is stored once more, and its first block stays behind."""

    def store(self, keys: Iterable[bytes], blocks: Sequence[int]) -> tuple[list[bytes], Copies]:
        keys, there = [*keys], self.cached
        self.cached = OrderedDict((key, host) for key, host in there.items() if key not in keys)
        begun = super().store(keys, blocks)
        self.cached = there
        return begun


class FreesTwice(Offload):
    """A host block is queued twice when its store is done."""

    def stored(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            host = self.storing[key][1]
            super().stored([key])
            self.free.append(host)


class StaleEntry(Offload):
    """A host block that is taken can be found under its old key."""

    def make_room(self) -> bool:
        kept = self.cached.copy()
        room = super().make_room()
        self.cached.update(kept)
        return room


class NeverFinds(Offload):
    """A lookup finds nothing, ever."""

    def lookup(self, keys: Iterable[bytes]) -> list[int]:
        return []


class NeverStores(Offload):
    """Nothing is worth it."""

    def store(self, keys: Iterable[bytes], blocks: Sequence[int]) -> tuple[list[bytes], Copies]:
        return [], []


class StoresOnce(Offload):
    """What was offered before is no news: not behind a reset either."""

    def __init__(self, pool: Pool, host_blocks: int) -> None:
        super().__init__(pool, host_blocks)
        self.known: set[bytes] = set()

    def store(self, keys: Iterable[bytes], blocks: Sequence[int]) -> tuple[list[bytes], Copies]:
        news = [(key, block) for key, block in zip(keys, blocks, strict=False) if key not in self.known]
        begun, copies = super().store([key for key, _ in news], [block for _, block in news])
        self.known.update(begun)
        return begun, copies


class KeepsHolds(Offload):
    """A store that is done goes on holding its device block."""

    def stored(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.pool.blocks[self.storing[key][0]].ref_cnt += 1
            super().stored([key])


class ResetKeepsHost(Offload):
    """A reset empties the device only."""

    def reset(self) -> bool:
        return not self.storing and self.pool.reset()


class RefusedResetEmptiesHost(Offload):
    """The host is emptied before it is known whether the device can be."""

    def reset(self) -> bool:
        self.cached.clear()
        return super().reset()


FAULTS: dict[type[Offload], set[str]] = {
    StoresWithoutHold: {"O8", "P2"},
    RegistersEarly: {"P6 (host)"},
    StoresAgain: {"O3"},
    ForgetsWhatIsThere: {"O3"},
    FreesTwice: {"O1 (host counts)"},
    StaleEntry: {"P6 (host)"},
    NeverFinds: {"O6"},
    NeverStores: {"O9"},
    StoresOnce: {"O9"},
    KeepsHolds: {"P2", "L2"},
    ResetKeepsHost: {"O10"},
    RefusedResetEmptiesHost: {"O10"},
}
"""The rules that name each of them."""


class LoadsInReverse(example.TestOffload):
    """The blocks of a load are mixed up."""

    def load(self, request: Request) -> Copies:
        return [*zip(request.on_host[::-1], request.table[len(request.found) :], strict=False)]


class FindsTheLastToken(example.TestOffload):
    """What the host has is not cut before the last token."""

    def host_lookup(self, request: Request) -> list[int]:
        return self.offload.lookup(self.keys(request)[len(request.found) :])


class Mirror(example.TestOffload):
    """The host mirrors what the device has registered, at once, and drops what was used last longest ago."""

    stored: Any = BlockManager.stored
    dialect: ClassVar = {"keep": "all", "take": "head", "free": "append", "host": "mirror"}

    def host_lookup(self, request: Request) -> list[int]:
        keys, found = self.keys(request)[: self.pool.most(request.tokens)], []
        for key in keys[len(request.found) :]:
            if key not in self.offload.cached:
                break
            found.append(self.offload.cached[key])
        return found

    def load(self, request: Request) -> Copies:
        self.touch({key for key, host in self.offload.cached.items() if host in request.on_host})
        return super().load(request)

    def touch(self, keys: Iterable[bytes]) -> None:
        for key in [key for key in self.offload.cached if key in keys]:
            self.offload.cached.move_to_end(key)

    def store(self, requests: Sequence[Request]) -> Iterator[tuple[Any, Copies]]:
        for request in requests:
            for block in request.table:
                key = self.pool.blocks[block].key
                if key is not None and key in self.offload.cached:
                    self.touch({key})
                elif key is not None:
                    self.offload.make_room()
                    host = self.offload.free.pop(0)
                    self.offload.free.append(host)
                    self.offload.cached[key] = host
                    yield None, [(block, host)]


class MirrorsOnce(Mirror):
    """What is mirrored again is not used again."""

    def touch(self, keys: Iterable[bytes]) -> None:
        pass


class MirrorsHalf(Mirror):
    """Only the first request of a batch is mirrored."""

    def store(self, requests: Sequence[Request]) -> Iterator[tuple[Any, Copies]]:
        yield from super().store(requests[:1])


class DropsOnRelease(Mirror):
    """What a request gives back leaves the host too."""

    def free(self, request: Request) -> None:
        for key in self.keys(request)[:1]:
            self.offload.cached.pop(key, None)
        super().free(request)


class MixesTenants(example.TestOffload):
    """What the host has of one tenant is found for another."""

    def host_lookup(self, request: Request) -> list[int]:
        pool = self.pool
        return self.offload.lookup(pool.keys(request.tokens)[: pool.most(request.tokens)][len(request.found) :])


class LoadsAllButOne(example.TestOffload):
    """Of several blocks that are loaded the last one is not copied."""

    def load(self, request: Request) -> Copies:
        copies = super().load(request)
        return copies[:-1] if len(copies) > 1 else copies


OF_ADAPTERS: dict[type[example.TestOffload], set[str]] = {
    LoadsInReverse: {"P6"},
    MixesTenants: {"P6"},
    LoadsAllButOne: {"P6"},
    FindsTheLastToken: {"P14"},
    MirrorsOnce: {"M2", "M3", "M4"},
    MirrorsHalf: {"M2"},
    DropsOnRelease: {"M1"},
}

"""The reference implementation as a target for machine P."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch

from ...checkers.target import NONE, UNKNOWN, Answer, Args, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from ...refimpl.payload import Payload
from ...refimpl.pool.block_pool import BlockPool
from ...refimpl.pool.manager import KVCacheManager, ManagerSnapshot, RequestId
from ..forking import forked
from ..instances import Instance
from ..strays import Stray, TargetWithStrays
from .strays import of_manager

__all__ = ["PoolTarget"]

_REMEMBERED = 1000
"""How many payloads are decoded once."""


class _ReadyPayload(Payload):
    """Keeps the KV of all tokens of an instance from the start: one by one they would take half of a run's time."""

    def keep(self, digests: Sequence[int], vectors: torch.Tensor) -> None:
        """`vectors` is the KV of the tokens with these digests."""
        self._vectors.update(zip(digests, vectors, strict=True))

    __shared__ = ("_vectors",)
    """What a token's KV is, is the same for all; the bytes are each one's own."""


class _Decoder:
    """Tells contents by their bytes. All bytes are looked at each time; equal ones are decoded once."""

    def __init__(self, payload: Payload, digests: Sequence[int]) -> None:
        """For payloads like this one, in which tokens with these digests are written."""
        vectors = payload.expected(torch.tensor(digests, dtype=torch.int64))
        if isinstance(payload, _ReadyPayload):
            payload.keep(digests, vectors)
        self._width = payload.data[:, :, 0, 0].nbytes
        self._content_of = {vector.tobytes(): c for c, vector in enumerate(vectors.numpy())}
        # The bytes of a slot that was never written are no content.
        self._content_of[bytes(self._width)] = NONE
        self._seen: dict[bytes, list[int]] = {}

    def decode(self, payload: Payload) -> list[int]:
        """The content of every slot, block by block."""
        data = payload.data.numpy()
        raw = data.tobytes()
        decoded = self._seen.get(raw)
        if decoded is None:
            by_slot = data.transpose(2, 3, 0, 1, 4, 5).tobytes()
            content_of, width = self._content_of, self._width
            decoded = [content_of.get(by_slot[at : at + width], UNKNOWN) for at in range(0, len(raw), width)]
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[raw] = decoded
        return decoded


class PoolTarget(TargetWithStrays):
    """A `KVCacheManager`, driven action by action.

    What it observes comes from the manager's own snapshot, from the events that it reports, and from the bytes of its
    payload: a slot's content is the one whose KV stands there, whoever was asked to write it.
    """

    name = "refimpl"
    level = "pool"
    fields: ClassVar[tuple[str, ...]] = (
        "running",
        "length",
        "table",
        "ref_cnt",
        "free",
        "hashes",
        "cached",
        "content",
        "announced",
        "reported",
    )
    # Which key a block gets is the caller's word: it computed the tokens.
    unjudged: ClassVar = {"register": frozenset({"parent"})}
    # Without a cache nothing is found, and nothing of nothing is nothing.
    ignored: ClassVar = {
        "hit": frozenset({"caching"}),
        "allocate": frozenset({"1 <= n"}),
        "trim": frozenset({"1 <= n"}),
        "evict": frozenset({"hashes"}),
    }
    weights: ClassVar = {"hit": 2, "allocate": 3, "write": 8, "register": 6, "finish": 2}

    lookups: ClassVar = frozenset({"hit"})
    essential: ClassVar = frozenset({"admit", "allocate"})

    pool_kind: type[BlockPool] = BlockPool
    """The pool that is driven."""
    manager_kind: type[KVCacheManager] = KVCacheManager
    """The manager that is driven."""

    def __init__(self, setting: Instance) -> None:
        """A fresh manager for an instance."""
        super().__init__(setting)
        self.instance = setting
        params = setting.scope.params
        self._null: int | None = params["null"]
        self._need: list[int] = params["need"]
        self._limit: list[int] = params["limit"]
        self._parent: list[int | None] = params["parent"]
        self._covered = setting.covered
        self._hash_of = {key: h for h, key in enumerate(setting.keys)}
        self._prompts = [[setting.keys[h] for h in row] for row in params["prompt"]]
        self._sizes = tuple(setting.scope.sizes[s] for s in ("Block", "Request", "Position", "Hash"))
        pool = self.pool_kind(setting.blocks, **self._pool_options())
        self.manager = self.manager_kind(pool, **self._manager_options())
        self._listen()
        self._decoder = _Decoder(self._device, setting.digests)

    def _pool_options(self) -> dict[str, Any]:
        params = self.instance.scope.params
        return {
            "free_order": "split" if params["split"] else "append",
            "caching": params["caching"],
            "null_block": params["null"] is not None,
        }

    def _manager_options(self) -> dict[str, Any]:
        return {"block_tokens": self.instance.block_tokens, "payload": self._payload(self.instance.blocks)}

    def _payload(self, blocks: int) -> Payload:
        # Eight float32 are 192 random bits a token: one content is never taken for another.
        return _ReadyPayload(blocks, self.instance.block_tokens, layers=1, heads=1, head_dim=4)

    @property
    def _device(self) -> Payload:
        assert self.manager.payload is not None
        return self.manager.payload

    # ------------------------------------------------------------------------------------------------ driving

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call that the action is."""
        try:
            result, refused = getattr(self, f"_{action}")(*args), None
        except RefusedError as error:
            result, refused = None, str(error)
        reported = self.manager.take_events()
        if not reported:
            return Answer(result, (), refused)
        return Answer(result, tuple([self._hear(event) for event in reported]), refused)

    def _admit(self, r: int) -> None:
        if not self.manager.admit(r, self._need[r]):
            raise RefusedError("the request does not fit the pool")

    def _hit(self, r: int) -> object:
        """A lookup; what it adds to the counters is what it found, once in the request's life (P15).

        Machines that have these counters themselves are compared with them; P has none.
        """
        if "queries" in self.fields:
            return self.manager.hit(r, self._prompts[r], self._limit[r])
        before, stats = r in self._counted(), self.manager.stats
        found = self.manager.hit(r, self._prompts[r], self._limit[r])
        asked = min(self._limit[r], len(self._prompts[r]))
        now, is_counted = self.manager.stats, self.manager.pool.caching and not before
        counted = now.queries - stats.queries, now.hits - stats.hits
        return found if counted == ((asked, found) if is_counted else (0, 0)) else f"{found}, and {counted} are counted"

    def _allocate(self, r: int, n: int) -> object:
        blocks = self.manager.allocate(r, n)
        if blocks is None:
            raise RefusedError("too few blocks are free")
        entries = self.manager.table(r)[-n:] if n else ()
        # The machine's action has no result; a wrong one here must differ from that.
        return None if tuple(blocks) == entries else f"{blocks}, but the table ends in {entries}"

    def _skip(self, r: int) -> None:
        self.manager.skip(r)

    def _write(self, r: int, i: int, s: int, c: int) -> None:
        self.manager.write(r, i, s, self.instance.digests[c])

    def _register(self, r: int, i: int, h: int) -> None:
        keys, parent = self.instance.keys, self._parent[h]
        self.manager.register(r, i, keys[h], None if parent is None else keys[parent], self._covered[h])

    def _trim(self, r: int, n: int) -> None:
        self.manager.trim(r, n)

    def _finish(self, r: int) -> object:
        self.manager.finish(r)
        return "it counts as one that will come back" if r in self._counted() else None

    def _preempt(self, r: int) -> object:
        before = self._counted()
        self.manager.preempt(r)
        return None if self._counted() == before else "it counts as one that never came"

    def _counted(self) -> frozenset[RequestId]:
        """Whose lookups were counted; nobody's, where the machine says that itself, and is compared with it."""
        return frozenset() if "counted" in self.fields else self.manager.snapshot().counted

    def _evict(self, b: int) -> None:
        self.manager.evict(b)

    def _reset(self) -> None:
        if not self.manager.reset():
            raise RefusedError("blocks are referenced")

    def _stray_calls(self) -> Iterator[Stray]:
        """Blocks, requests, positions and counts that there are not."""
        yield from of_manager(self.manager)

    # ------------------------------------------------------------------------------------------------ observing

    def flat(self) -> Fields:
        """The manager's own snapshot, the listener's view, and the payload, decoded."""
        return self._fields_of(self.manager.snapshot())

    def _fields_of(self, snapshot: ManagerSnapshot) -> Fields:
        blocks, requests, positions, hashes = self._sizes
        pool = snapshot.pool
        hash_of = self._hash_of
        running = [False] * requests
        length = [0] * requests
        table = [NONE] * (requests * positions)
        for r, entries in snapshot.tables.items():
            assert isinstance(r, int)
            running[r] = True
            length[r] = len(entries)
            table[r * positions : r * positions + len(entries)] = entries
        carried = [False] * (blocks * hashes)
        for b, keys in pool.keys.items():
            for key in keys:
                h = hash_of.get(key)
                if h is None:
                    carried.append(True)
                else:
                    carried[b * hashes + h] = True
        cached: list[list[int]] = [[] for _ in range(hashes)]
        for key, copies in pool.copies.items():
            h = hash_of.get(key)
            if h is None:
                cached.append(list(copies))
            else:
                cached[h] = list(copies)
        return {
            "running": running,
            "length": length,
            "table": table,
            "ref_cnt": list(pool.ref_cnt),
            "free": walked(pool.free, pool.num_free),
            "hashes": carried,
            "cached": cached,
            "content": self._decoder.decode(self._device),
            "announced": list(self._announced),
            "reported": list(self._reported),
        }

    def residue(self) -> object:
        """What the manager remembers beyond the machine's state: counters, and who was counted."""
        snapshot = self.manager.snapshot()
        covered = [self.manager.covered_slots(b) for b in range(self._sizes[0])]
        return snapshot.needs, snapshot.counted, snapshot.queries, snapshot.hits, covered

    def _listen(self) -> None:
        """Begin to fold events: what a listener believes to be cached, and what it ever heard of."""
        self._announced = [False] * self._sizes[3]
        self._reported = [False] * self._sizes[3]

    def _hear(self, event: Event) -> tuple[Any, ...]:
        """An event in the machine's words; it also changes what the listener believes."""
        if isinstance(event, AllBlocksCleared):
            self._announced = [False] * self._sizes[3]
            return ("cleared",)
        h = self._hash_of.get(event.key, UNKNOWN)
        if isinstance(event, BlockRemoved):
            if h != UNKNOWN:
                self._announced[h] = False
            return ("removed", h)
        assert isinstance(event, BlockStored)
        if h != UNKNOWN:
            self._announced[h] = self._reported[h] = True
        parent = NONE if event.parent is None else self._hash_of.get(event.parent, UNKNOWN)
        first = self.manager.pool.lookup(event.key)
        return (
            ("stored", h, parent)
            if event.block == first
            else ("stored", h, parent, f"block {event.block}, not {first}")
        )

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state; only what can change is copied."""
        other = copy.copy(self)
        other._fork_implementation()
        other._announced, other._reported = self._announced[:], self._reported[:]
        return other

    def _fork_implementation(self) -> None:
        self.manager = forked(self.manager)

    def spell(self, action: str, args: Args) -> str:
        """The call on the manager."""
        spelled = self._spelled().get(action)
        return f"manager.{action}({', '.join(map(str, args))})" if spelled is None else spelled(*args)

    def _spelled(self) -> Mapping[str, Callable[..., str]]:
        """The calls that have other arguments than the action."""
        covered, limit, need, parent = self._covered, self._limit, self._need, self._parent
        prompts = self.instance.scope.params["prompt"]
        return {
            "admit": lambda r: f"manager.admit({r}, need={need[r]})",
            "hit": lambda r: f"manager.hit({r}, keys={prompts[r]}, limit={limit[r]})",
            "register": lambda r, i, h: (
                f"manager.register({r}, {i}, key={h}, parent={parent[h]}, covered={covered[h]})"
            ),
        }


def walked(queue: Sequence[Any], counter: int) -> list[Any]:
    """A queue as walked, and what its counter says where that is something else."""
    return list(queue) if counter == len(queue) else [*queue, f"the counter says {counter}"]

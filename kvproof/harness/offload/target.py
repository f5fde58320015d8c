"""The reference implementation as a target for machine O: the scheduler's side, and workers that copy when told."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

from ...checkers.target import NONE, UNKNOWN, Answer, Args, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.events import BlockRemoved, BlockStored
from ...refimpl.offload.manager import OffloadManager
from ...refimpl.offload.records import OffloadSnapshot, TransferSnapshot
from ...refimpl.offload.transfers import WorkerReport
from ...refimpl.offload.worker import SteppedWorker
from ...refimpl.pool.block_pool import BlockPool
from ...refimpl.pool.manager import KVCacheManager, ManagerSnapshot
from ..forking import forked
from ..instances import Instance
from ..pool.strays import NOBODY, of_pool
from ..pool.target import PoolTarget, walked
from ..strays import Stray

__all__ = ["OffloadTarget"]


class OffloadTarget(PoolTarget):
    """An `OffloadManager`, and workers that copy slot by slot at the moments that the machine chooses.

    Scheduler and workers talk by their messages only. Each message has one pair of blocks here, because the machine's
    transfers end one by one. What stands on the host is read from the bytes of its payload.
    """

    level = "offload"
    fields: ClassVar[tuple[str, ...]] = (
        *PoolTarget.fields,
        "transfers",
        "filed",
        "computing",
        "offered",
        "pins",
        "host_free",
        "host_ref_cnt",
        "host_hashes",
        "host_cached",
        "host_announced",
        "source",
        "named",
        "storing",
        "store_failed",
        "host_content",
        "origin",
        "wanted",
        "loading",
        "load_failed",
        "refused",
    )
    unjudged: ClassVar = {
        **PoolTarget.unjudged,
        # Who wrote a block's tokens is the caller's business; what others may find there is the implementation's.
        "write": frozenset({"filed"}),
        # The implementation's own finish offers what was not offered.
        "finish": frozenset({"offered"}),
        # That a slot is copied once is the workers' business, and that they copy before they say so.
        "copy_out": frozenset({"stored_slot"}),
        "copy_in": frozenset({"loaded_slot"}),
        # What the last report of a load means, the implementation decides: one call is three actions of the machine.
        "report_load": frozenset({"load_failed"}),
        "fail_load": frozenset({"loading", "load_failed"}),
        "fail_abandoned_load": frozenset({"loading", "load_failed", "table"}),
    }
    ignored: ClassVar = {**PoolTarget.ignored, "look": frozenset({"caching"})}
    lookups: ClassVar = frozenset({"hit", "look"})
    weights: ClassVar = {
        **PoolTarget.weights,
        "process": 6,
        "offer": 6,
        "scan": 6,
        "copy_out": 8,
        "report_store": 8,
        "evict": 6,
        "look": 6,
        "load": 30,
        "copy_in": 15,
        "report_load": 8,
        "fail_load": 4,
        "fail_abandoned_load": 30,
    }
    # The way to the host and back is long: a run that lacks one of its steps ends before it.
    essential: ClassVar = PoolTarget.essential | {
        "write",
        "process",
        "register",
        "offer",
        "copy_out",
        "report_store",
        "preempt",
        "evict",
        "look",
        "load",
    }

    manager_kind: type[KVCacheManager] = OffloadManager
    host_kind: type[BlockPool] = BlockPool
    """The host's pool."""
    worker_kind: type[SteppedWorker] = SteppedWorker
    """The workers."""

    manager: OffloadManager

    def __init__(self, setting: Instance) -> None:
        """A fresh manager for an instance, with an empty host pool, and a worker for each part of a block."""
        super().__init__(setting)
        sizes, owner = setting.scope.sizes, setting.scope.params["owner"]
        self._host = self._payload(sizes["HostBlock"])
        self._workers = [
            self.worker_kind(w, self._device.data, self._host.data, slots=[s for s, at in enumerate(owner) if at == w])
            for w in range(sizes["Worker"])
        ]
        self._host_announced = [False] * self._sizes[3]
        # The last transfer that each block was named in, as stale reports name it.
        self._store_to: dict[int, int] = {}
        self._load_to: dict[int, int] = {}

    def _manager_options(self) -> dict[str, Any]:
        scope = self.instance.scope
        host = self.host_kind(scope.sizes["HostBlock"], **{**self._pool_options(), "null_block": False})
        return {
            **super()._manager_options(),
            "host": host,
            "workers": scope.sizes["Worker"],
            "lazy": scope.params["lazy"],
            "max_pairs": 1,
        }

    # ------------------------------------------------------------------------------------------------ driving

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call that the action is, and carry what it sends to the workers."""
        answer = super().apply(action, args)
        messages = self.manager.take_messages()
        for worker in self._workers:
            worker.submit(messages)
        if answer.refused is None:  # Nothing begins in a call that is refused; that nothing changed is compared.
            shown = self.manager.snapshot()
            self._store_to.update((store.pairs[0][1], name) for name, store in shown.stores.items())
            self._load_to.update((load.pairs[0][1], name) for name, load in shown.loads.items())
        heard = [self._hear_of_host(event) for event in self.manager.host.take_events()]
        return Answer(answer.result, (*answer.events, *(event for event in heard if event)), answer.refused)

    def refuse(self, action: str, args: Args) -> Answer:
        """Try what is not possible. What a scan stores is the implementation's choice, so another store is no fault."""
        if action != "scan":
            return super().refuse(action, args)
        answer = self.fork().apply(action, args)
        return answer if answer.refused is None and answer.result is None else Answer(refused="it stores another block")

    def _hear_of_host(self, event: object) -> tuple[Any, ...]:
        """An event of the host in the machine's words. That it is cleared is said once for both tiers."""
        if isinstance(event, BlockStored | BlockRemoved):
            h = self._hash_of.get(event.key, UNKNOWN)
            if h != UNKNOWN:
                self._host_announced[h] = isinstance(event, BlockStored)
            return ("host_stored" if isinstance(event, BlockStored) else "host_removed", h)
        self._host_announced = [False] * len(self._host_announced)
        return ()

    def _process(self, b: int) -> None:
        self.manager.processed(b)

    def _offer(self, r: int) -> None:
        if not self.manager.offer(r):
            raise RefusedError("nothing is there to be offered")

    def _scan(self, b: int, h: int) -> object:
        for _ in range(self._sizes[0] + 1):
            if self.manager.scan(1):
                shown = self.manager.snapshot().stores
                last = shown[max(shown)]
                found = last.pairs[0][0], self._hash_of.get(last.keys[0], UNKNOWN)
                return None if found == (b, h) else f"block {found[0]} was stored under hash {found[1]}"
        raise RefusedError("nothing is worth storing, or the host is full")

    def _copy_out(self, c: int, s: int) -> None:
        self._copy(self._store_to.get(c, NONE), s)

    def _copy_in(self, b: int, s: int) -> None:
        self._copy(self._load_to.get(b, NONE), s)

    def _copy(self, transfer: int, slot: int) -> None:
        self._workers[self.instance.scope.params["owner"][slot]].copy(transfer, 0, slot)

    def _report_store(self, c: int, w: int, ok: int) -> None:
        self._report(self._store_to.get(c, NONE), w, ok)

    def _report_load(self, b: int, w: int, ok: int) -> None:
        self._report(self._load_to.get(b, NONE), w, ok)

    def _fail_load(self, r: int, i: int, w: int, ok: int) -> None:
        table = self.manager.table(r)
        self._report(self._load_to.get(table[i], NONE) if i < len(table) else NONE, w, ok)

    def _fail_abandoned_load(self, b: int, w: int, ok: int) -> None:
        self._report(self._load_to.get(b, NONE), w, ok)

    def _report(self, transfer: int, w: int, ok: int) -> None:
        """A worker says that it is done; where it has nothing to say, what it would say is heard again."""
        worker = self._workers[w]
        if transfer in worker.jobs:
            if ok:
                worker.finish(transfer)
            else:
                worker.fail(transfer)
            (report,) = worker.poll()
        else:
            report = WorkerReport(w, transfer, bool(ok))
        if not self.manager.report(report):
            raise RefusedError(f"nobody waits for worker {w} to report transfer {transfer}")

    def _look(self, r: int) -> int:
        return self.manager.look(r, self._prompts[r], self._limit[r])

    def _unpin(self, r: int) -> None:
        self.manager.unpin(r)

    def _load(self, r: int, n: int) -> object:
        before = self.manager.table(r) if self.manager.is_inside(r) else ()
        blocks = self.manager.load(r, n)
        if blocks is None:
            raise RefusedError("too few blocks are free")
        return None if (*before, *blocks) == self.manager.table(r) else f"{blocks}, but the table is otherwise"

    def _stray_calls(self) -> Iterator[Stray]:
        yield from super()._stray_calls()
        manager = self.manager
        yield from of_pool(manager.host)
        yield manager.processed, (-1,)
        yield manager.scan, (-1,)
        for asked in (manager.num_offered, manager.num_external, manager.num_pinned, manager.is_loading):
            yield asked, (NOBODY,)
        for r in manager.snapshot().tables:
            too_many = manager.need(r) + 1
            yield manager.offer, (r, -1)
            yield manager.processed_run, (r, -1)
            yield manager.load, (r, 0)
            yield manager.load, (r, too_many)
            yield manager.look, (r, [b""] * too_many, -1)
            yield manager.look, (r, [b""] * too_many, too_many)

    # ------------------------------------------------------------------------------------------------ observing

    def _fields_of(self, snapshot: ManagerSnapshot) -> Fields:
        assert isinstance(snapshot, OffloadSnapshot)
        blocks, requests, positions, hashes = self._sizes
        hosts, workers = self.instance.scope.sizes["HostBlock"], len(self._workers)
        host = snapshot.host
        filed, pins, offered = [NONE] * (requests * positions), [NONE] * (requests * positions), [0] * requests
        for r, keys in snapshot.filed.items():
            assert isinstance(r, int)
            named = [NONE if key is None else self._hash_of.get(key, UNKNOWN) for key in keys]
            filed[r * positions : r * positions + len(keys)] = named
        for r, pinned in snapshot.pins.items():
            assert isinstance(r, int)
            for position, c in pinned.items():
                pins[r * positions + position] = c
        for r, count in snapshot.offered.items():
            assert isinstance(r, int)
            offered[r] = count
        carried = [False] * (hosts * hashes)
        for c, of_block in host.keys.items():
            for key in of_block:
                carried[c * hashes + self._hash_of[key]] = True
        cached: list[list[int]] = [[] for _ in range(hashes)]
        for key, copies in host.copies.items():
            cached[self._hash_of[key]] = list(copies)
        lent = [0] * blocks
        for shown in snapshot.stores.values():
            lent[shown.pairs[0][0]] += 1
        for shown in snapshot.loads.values():
            lent[shown.pairs[0][1]] += 1
        stores = self._by_destination(snapshot.stores, hosts, workers)
        loads = self._by_destination(snapshot.loads, blocks, workers)
        return {
            **super()._fields_of(snapshot),
            "transfers": lent,
            "filed": filed,
            "computing": [b in snapshot.computing for b in range(blocks)],
            "offered": offered,
            "pins": pins,
            "host_free": walked(host.free, host.num_free),
            "host_ref_cnt": list(host.ref_cnt),
            "host_hashes": carried,
            "host_cached": cached,
            "host_announced": list(self._host_announced),
            **dict(zip(("source", "named", "storing", "store_failed"), stores, strict=True)),
            "host_content": self._decoder.decode(self._host),
            **dict(zip(("origin", "wanted", "loading", "load_failed"), loads, strict=True)),
            "refused": [snapshot.stats.host_full],
        }

    def _by_destination(
        self, transfers: Mapping[int, TransferSnapshot], blocks: int, workers: int
    ) -> tuple[list[int], list[int], list[bool], list[bool]]:
        """For each block that transfers write to: what they read, its hash, who has yet to report, who failed."""
        source, named, failed = [NONE] * blocks, [NONE] * blocks, [False] * blocks
        waiting = [False] * (blocks * workers)
        for shown in transfers.values():
            ((origin, to),) = shown.pairs
            source[to], named[to] = origin, self._hash_of.get(shown.keys[0], UNKNOWN)
            failed[to] = shown.failed
            waiting[to * workers : (to + 1) * workers] = [w not in shown.reported for w in range(workers)]
        return source, named, waiting, failed

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state."""
        other = super().fork()
        other._host_announced = self._host_announced[:]
        other._store_to, other._load_to = dict(self._store_to), dict(self._load_to)
        return other

    def _fork_implementation(self) -> None:
        # Workers, payloads and manager share memory, so they are copied together.
        self.manager, self._workers, self._host = forked((self.manager, self._workers, self._host))

    def _spelled(self) -> Mapping[str, Callable[..., str]]:
        prompts, limit = self.instance.scope.params["prompt"], self._limit
        return {
            **super()._spelled(),
            "process": lambda b: f"manager.processed({b})",
            "scan": lambda _b, _h: "manager.scan(1)",
            "look": lambda r: f"manager.look({r}, keys={prompts[r]}, limit={limit[r]})",
            "copy_out": lambda c, s: f"# slot {s} of the store to host block {c} is copied",
            "copy_in": lambda b, s: f"# slot {s} of the load to block {b} is copied",
            "report_store": lambda c, w, ok: f"# worker {w} reports the store to host block {c}: ok={bool(ok)}",
            "report_load": lambda b, w, ok: f"# worker {w} reports the load to block {b}: ok={bool(ok)}",
            "fail_load": lambda r, i, w, ok: f"# worker {w} reports the load for position {i} of {r}: ok={bool(ok)}",
            "fail_abandoned_load": lambda b, w, ok: f"# worker {w} reports the load to block {b}: ok={bool(ok)}",
        }

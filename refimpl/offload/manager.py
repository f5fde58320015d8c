"""A manager with asynchronous offload: blocks are copied to a host pool and back while requests come and go (O1).

The scheduler's side only: it moves no bytes. It plans transfers, sends them as messages (``transfers``) and learns from
reports when they are done. The host tier is a ``BlockPool`` like the device's. A transfer is a holder like any other:
from its planning to its end it holds each block that it reads and each that it writes, on both tiers (O2), so requests
may finish, be preempted or aborted at any moment and no block is handed out under a copy (O8).

Which blocks are stored is one of two modes (O4):

* eager: every computed block of a request is offered once, in the order of its table. At quiescence all that a finished
  request had registered is on the host, was there, or met a host without a block to take (O9);
* lazy: the free queue is scanned from its head, so a block is stored shortly before it would be reused. A block that
  somebody holds all the time is never stored: a prefix that all running requests share is lost when they all go at
  once and the queue moves faster than the scan. So is what is freed and taken again between two scans, and what
  stands further behind than the scans get.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields

from torch import Tensor

from ..errors import RefusedError
from ..payload import Payload
from ..pool.block_pool import BlockPool
from ..pool.manager import KVCacheManager, ManagerSnapshot, RequestId
from .records import OfferStats, OffloadSnapshot, Pins, Tier, Transfer, TransferSnapshot
from .transfers import Load, Message, Pairs, Store, WorkerReport


class OffloadManager(KVCacheManager):
    """A ``KVCacheManager`` with a host pool behind it. Each public method is one step, as there.

    One step of an engine is, in this order::

        report ... -> processed ... -> offer or scan -> finish of those that are done
        -> hit, look, load, allocate -> write, register -> take_messages

    Each step costs O(1) per block that it names; a scan per block that it looks at.
    """

    __slots__ = (
        "_computing",
        "_cursor",
        "_full_keys",
        "_loading",
        "_next_id",
        "_outcomes",
        "_storing",
        "_tiers",
        "_transfers",
        "_unsent",
        "host",
        "lazy",
        "max_pairs",
        "workers",
    )

    def __init__(
        self,
        pool: BlockPool,
        *,
        block_tokens: int,
        payload: Payload | None = None,
        host: BlockPool,
        workers: int = 1,
        lazy: bool = False,
        max_pairs: int | None = None,
    ) -> None:
        """Manage ``pool`` with ``host`` behind it.

        Args:
            pool: the pool; nobody else may allocate from or free to it.
            block_tokens: tokens per block.
            payload: where ``write`` puts the KV of the tokens. What transfers copy is the workers' business.
            host: the host's pool, of the same dialect, without null block; nobody else may change it.
            workers: how many workers there are, each with its own part of every block.
            lazy: whether free blocks are scanned; by default requests' blocks are offered (O4).
            max_pairs: the most blocks that one transfer copies, so that the first of many can be had before the last.
        """
        super().__init__(pool, block_tokens=block_tokens, payload=payload)
        if max_pairs is not None and max_pairs < 1:
            raise RefusedError(f"a transfer copies at least one block, got max_pairs={max_pairs}")
        if workers < 1:
            raise RefusedError(f"somebody must copy: got {workers} workers")
        if host.null_block is not None:
            raise RefusedError("the host keeps no null block: make its pool with null_block=False")
        if host.free_order != pool.free_order or (pool.caching and not host.caching):
            raise RefusedError("the host's pool has the free order of the device's, and caches if that does")
        self.host = host
        self.workers = workers
        self.lazy = lazy
        self.max_pairs = max_pairs
        self._tiers: dict[RequestId, Tier] = {}
        self._computing: set[int] = set()
        self._transfers: dict[int, Transfer] = {}
        self._unsent: dict[int, Message] = {}
        self._next_id = 0
        self._storing: set[tuple[int, bytes]] = set()
        self._loading: set[int] = set()
        # The keys that cover a whole block. Like `_covered`, an entry counts only while the block carries a key.
        self._full_keys: list[tuple[bytes, ...]] = [()] * pool.num_blocks
        # Lazy mode. The next scan goes on behind this block: no block up to it, itself included, is worth storing.
        self._cursor: int | None = None
        self._outcomes = dict.fromkeys((part.name for part in fields(OfferStats)), 0)

    # Requests come and go.

    def admit(self, request_id: RequestId, need: int) -> bool:
        """Let a request in, as in the manager."""
        admitted = super().admit(request_id, need)
        if admitted:
            self._tiers[request_id] = Tier()
        return admitted

    def finish(self, request_id: RequestId, *, abort: bool = False) -> None:
        """Let a request leave for good, transfers in flight or not (O8).

        In eager mode, what was not offered yet is offered first, in one ``Store``: also the blocks that the last step
        completed (O9). Then pins go, then the table. Refused while a step still writes a block of the table; with
        ``abort`` a request leaves at any moment, and the offers end at the first such block.
        """
        entry = self._entry(request_id)
        if not abort:
            if len(entry.table) != entry.need:
                raise RefusedError(f"request {request_id!r} has {len(entry.table)} of {entry.need} positions")
            if not self._computing.isdisjoint(entry.table):
                raise RefusedError(f"a step still writes a block of request {request_id!r}")
        if not self.lazy:
            self.offer(request_id, len(entry.table))
        self._drop_pins(self._tiers.pop(request_id))
        super().finish(request_id, abort=abort)

    def preempt(self, request_id: RequestId) -> None:
        """Let a request leave for now: pins go, then the table. Its transfers run on (O8)."""
        self._entry(request_id)
        self._drop_pins(self._tiers.pop(request_id))
        super().preempt(request_id)

    # Tables grow and shrink.

    def hit(self, request_id: RequestId, keys: Sequence[bytes], limit: int) -> int:
        """Start a table with the cached blocks of a prefix, as in the manager: those on the device only."""
        hits = super().hit(request_id, keys, limit)
        self._tiers[request_id].filed.update(enumerate(keys[:hits]))
        self._check_cursor()
        return hits

    def allocate(self, request_id: RequestId, n: int) -> list[int] | None:
        """Append ``n`` fresh blocks to a table, as in the manager."""
        blocks = super().allocate(request_id, n)
        self._check_cursor()
        return blocks

    def trim(self, request_id: RequestId, n: int) -> None:
        """Free the last ``n`` entries of a table, as in the manager. What comes there anew will be offered anew."""
        super().trim(request_id, n)
        length, tier = len(self._entry(request_id).table), self._tiers[request_id]
        for position in range(length, length + n):
            tier.filed.pop(position, None)
            tier.external.discard(position)
        tier.offered = min(tier.offered, length)

    def drop(self, request_id: RequestId, before: int, *, window_blocks: int = 0, min_drop: int = 16) -> list[int]:
        """Free what a sliding window has left behind, as in the manager. Offer before: what is gone is not stored."""
        dropped = super().drop(request_id, before, window_blocks=window_blocks, min_drop=min_drop)
        tier = self._tiers[request_id]
        for position in range(before - len(dropped), before):
            tier.filed.pop(position, None)
            tier.external.discard(position)
        return dropped

    # Content.

    def write(self, request_id: RequestId, position: int, slot: int, digest: int) -> None:
        """Write the KV of one token, as in the manager; until ``processed``, its block counts as being computed.

        A block that a transfer reads or writes has more than one holder, so it is refused here.
        """
        super().write(request_id, position, slot, digest)
        self._computing.add(self._block(request_id, position))

    def write_run(self, request_id: RequestId, start: int, digests: Tensor) -> None:
        """Write the KV of consecutive tokens, as ``write`` would one by one."""
        super().write_run(request_id, start, digests)
        count = digests.numel()  # `len` of a tensor takes longer than all the rest.
        if count:
            first, last = start // self.block_tokens, (start + count - 1) // self.block_tokens
            self._computing.update(self._inside[request_id].table[first : last + 1])

    def processed(self, block: int) -> None:
        """The step that writes ``block`` is done: its content is there, and copies may touch it (P6).

        Refused for a block that no step writes. The request that it was written for may be gone.
        """
        if block not in self._computing:
            raise RefusedError(f"no step writes block {block}")
        self._computing.remove(block)
        if self._cursor is not None and self.pool.is_free(block):
            self._cursor = None  # A scan may have passed it.

    def processed_run(self, request_id: RequestId, start: int = 0) -> int:
        """Do that for each block of a table, from position ``start`` on, that is being computed; return how many."""
        if start < 0:
            raise RefusedError(f"there is no position {start}")
        blocks = self._computing.intersection(self._entry(request_id).table[start:])
        for block in blocks:
            self.processed(block)
        return len(blocks)

    def register(self, request_id: RequestId, position: int, key: bytes, parent: bytes | None, covered: int) -> None:
        """Let lookups of ``key`` find the block at ``position``, as in the manager; it will be offered (anew).

        A block that is being loaded has no content yet: refused (P6).
        """
        block = self._block(request_id, position)
        if block in self._loading:
            raise RefusedError(f"block {block} is being loaded")
        had_keys = self.lazy and self.pool.has_keys(block)
        super().register(request_id, position, key, parent, covered)
        tier = self._tiers[request_id]
        if position < tier.offered:
            tier.offered = position
        is_full = covered == self.block_tokens
        if is_full and not self._carries(request_id, position, tier.filed.get(position)):
            tier.filed[position] = key
        if self.lazy:
            self._full_keys[block] = (self._full_keys[block] if had_keys else ()) + ((key,) if is_full else ())

    def reset(self) -> bool:
        """Forget all keys of both tiers if nothing is referenced on either, else change nothing; tell which (O10).

        Transfers and pins are references: a reset that answered ``False`` because of them is to be tried again when
        they are done.
        """
        if self.host.num_reclaimable != self.host.usable or not self.pool.reset():
            return False
        self._cursor = None
        return self.host.reset()

    # Host to device.

    def look(self, request_id: RequestId, keys: Sequence[bytes], limit: int) -> int:
        """Look on the host for what comes after a table, pin what is found, and return how many blocks (O5, O6).

        Args:
            request_id: a request inside.
            keys: the keys of its full blocks, first to last.
            limit: the most positions that hits and loads together may fill, by P14 (``blocks.lookup_limit``).

        Pins of an earlier lookup go first, last position first in one call. The walk covers ``keys[len(table):limit]``
        and ends at the first key that is not on the host. Pinned host blocks are held until ``load``, ``unpin``, the
        next lookup, or the request leaves.
        """
        entry = self._entry(request_id)
        asked = min(limit, len(keys))
        if not 0 <= asked <= entry.need:
            raise RefusedError(f"a lookup of {asked} blocks does not fit a table of {entry.need} positions")
        if not self.pool.caching:
            return 0
        tier = self._tiers[request_id]
        self._drop_pins(tier)
        first = len(entry.table)
        found: list[int] = []
        for position in range(first, asked):
            block = self.host.lookup(keys[position])
            if block is None:
                break
            found.append(block)
        self.host.touch(found)
        if found:
            tier.pins = Pins(first, found, list(keys[first : first + len(found)]))
        return len(found)

    def unpin(self, request_id: RequestId) -> None:
        """Drop the pins of a request, last position first in one call. Refused when it has none (O5)."""
        self._entry(request_id)
        tier = self._tiers[request_id]
        if tier.pins is None:
            raise RefusedError(f"request {request_id!r} has no pins")
        self._drop_pins(tier)

    def load(self, request_id: RequestId, n: int) -> list[int] | None:
        """Append ``n`` fresh blocks that pinned host blocks will be copied to; return them (O2, O5).

        Each pin of the ``n`` positions behind the table becomes the load's hold on its host block; each device block
        is held by the table and by the load. All other pins go. ``None``, and nothing changed, if too few device
        blocks are free. Refused when not all of these positions are pinned, or the table would become too long.
        """
        entry = self._entry(request_id)
        tier = self._tiers[request_id]
        first = len(entry.table)
        begin = first - tier.pins.first if tier.pins is not None else 0
        if tier.pins is None or n < 1 or begin < 0 or begin + n > len(tier.pins.blocks):
            raise RefusedError(f"there are no pins for {n} positions from {first} on")
        blocks = self.allocate(request_id, n)
        if blocks is None:
            return None
        self.pool.touch(blocks)
        pins, end = tier.pins, begin + n
        pairs = list(zip(pins.blocks[begin:end], blocks, strict=True))
        for at, part in self._parts(pairs):
            transfer = self._begin(Load(self._next_id, part), pins.keys[begin + at : begin + at + len(part)])
            transfer.request, transfer.first = request_id, first + at
        self._loading.update(blocks)
        tier.external.update(range(first, first + n))
        del pins.blocks[begin:end]
        self._drop_pins(tier)
        return blocks

    # Device to host.

    def offer(self, request_id: RequestId, n: int = 1) -> int:
        """Offer the next ``n`` positions of a table for storing; return how many were offered (O3, O4, O9, O12).

        Eager mode only. It ends at the end of the table, or at the first block that a step still writes. A block is
        stored if it carries the key that its position was filed under, if that is not on the host nor on its way there
        from this block, and if the host has a block that nobody holds; else it is dropped, and ``offer_stats`` counts
        why. Each is decided by itself, in order: a host block taken for one may have carried the key of a later one.
        All stores of one call are one ``Store``, or as many as ``max_pairs`` makes of it.
        """
        if self.lazy:
            raise RefusedError("in lazy mode nothing is offered")
        if n < 0:
            raise RefusedError(f"cannot offer {n} positions")
        table, tier = self._entry(request_id).table, self._tiers[request_id]
        start = tier.offered
        end = min(start + n, len(table))
        if start >= end:
            return 0
        pairs: list[tuple[int, int]] = []
        keys: list[bytes] = []
        computing, outcomes, filed = self._computing, self._outcomes, tier.filed
        for position in range(start, end):
            block, key = table[position], filed.get(position)
            if block in computing:
                break
            tier.offered = position + 1
            outcome = self._outcome(block, key)
            outcomes[outcome] += 1
            if outcome == "stored" and key is not None:
                pairs.append(self._take_host_block(block, key))
                keys.append(key)
        if pairs:
            # They are in the request's table, so nothing could take them meanwhile.
            self.pool.touch([block for block, _ in pairs])
            self._begin_store(pairs, keys)
        return tier.offered - start

    def scan(self, target: int) -> int:
        """Look at the next ``target`` blocks of the free queue and store those that are worth it; return how many (O4).

        Lazy mode only. Worth it is a block with a key that covers all of it, is not on the host, and that no step still
        writes. Such a block leaves the queue until it is stored. The walk ends where the host has no block for one.

        It goes on where the last scan ended. Whatever could make a passed block worth storing sends it back to the
        head: the cursor's block left the queue, if only for a while; a block in the queue was processed; the host
        forgot a key that the device has. So no scan stores a block before one that stands nearer to the head. But where
        the host is smaller than what is free here, scan after scan finds something: call it in steps that take blocks.
        """
        if not self.lazy:
            raise RefusedError("in eager mode nothing is scanned")
        if target < 0:
            raise RefusedError(f"cannot scan {target} blocks")
        pairs: list[tuple[int, int]] = []
        keys: list[bytes] = []
        for _ in range(target):
            block = self.pool.free_behind(self._cursor)
            if block is None:
                break
            key = self._worth_storing(block)
            if key is None:
                self._cursor = block
            elif not self.host.num_free:
                break
            else:
                self._outcomes["stored"] += 1
                pairs.append(self._take_host_block(block, key))
                keys.append(key)
                self.pool.touch((block,))
        self._begin_store(pairs, keys)
        return len(pairs)

    # Messages.

    def take_messages(self) -> list[Message]:
        """Return what is to be sent to every worker, oldest first, and forget it.

        A load waits here while a step still writes one of its device blocks, for a request that gave it up. What was
        planned after it need not wait: no other transfer in flight touches its blocks.
        """
        messages = [message for message in self._unsent.values() if not self._must_wait(message)]
        for message in messages:
            del self._unsent[message.id]
        return messages

    def report(self, report: WorkerReport) -> bool:
        """Take a worker's report; tell whether it was one that was waited for (O7).

        A transfer ends when all workers have reported, in any order. A report of an unknown worker or transfer, of one
        that was not sent, that has ended, or that this worker reported, answers ``False`` and changes nothing.

        A store that ends well is registered on the host, pair by pair in order; after each, the host block and then
        the device block are let go. A load that ends well lets host and device block go the same way: its content is
        there, and may be registered. When any report was bad the transfer failed. It still ends with the last report
        and not before, since until then others may copy (O8). A failed store registers nothing. A failed load lets its
        blocks go last first, and takes each that is still in its request's table from there, with all behind it
        (O11).
        """
        transfer = self._transfers.get(report.id)
        if transfer is None or report.id in self._unsent or report.worker not in transfer.waiting:
            return False
        transfer.waiting.discard(report.worker)
        transfer.failed = transfer.failed or not report.ok
        if transfer.waiting:
            return True
        del self._transfers[report.id]
        if isinstance(transfer.message, Store):
            self._end_store(transfer)
        elif transfer.failed:
            self._fail_load(transfer)
        else:
            self._end_load(transfer)
        return True

    # Observation.

    @property
    def pending(self) -> int:
        """The number of transfers in flight, sent or not: while there is one, an engine goes on stepping (O8)."""
        return len(self._transfers)

    @property
    def offer_stats(self) -> OfferStats:
        """What became of the offers so far (O9)."""
        return OfferStats(**self._outcomes)

    def is_loading(self, request_id: RequestId) -> bool:
        """Tell whether blocks in the table of a request inside are still being loaded. Linear in its loads."""
        table, external = self._entry(request_id).table, self._tiers[request_id].external
        return any(table[position] in self._loading for position in external)

    def is_computing(self, block: int) -> bool:
        """Tell whether a step still writes ``block``."""
        return block in self._computing

    def num_offered(self, request_id: RequestId) -> int:
        """Return how many positions of the table of a request inside were offered."""
        self._entry(request_id)
        return self._tiers[request_id].offered

    def num_external(self, request_id: RequestId) -> int:
        """Return how many positions of the table of a request inside were, or are being, loaded (O11)."""
        self._entry(request_id)
        return len(self._tiers[request_id].external)

    def num_pinned(self, request_id: RequestId) -> int:
        """Return how many host blocks a request inside has pinned (O5)."""
        self._entry(request_id)
        pins = self._tiers[request_id].pins
        return 0 if pins is None else len(pins.blocks)

    def snapshot(self) -> OffloadSnapshot:
        """Collect the whole observable state of both tiers. Linear: for checkers, not for serving."""
        device = super().snapshot()
        pins = {request_id: tier.pins for request_id, tier in self._tiers.items() if tier.pins is not None}
        transfers = {name: self._transfer_snapshot(transfer) for name, transfer in self._transfers.items()}
        return OffloadSnapshot(
            **{part.name: getattr(device, part.name) for part in fields(ManagerSnapshot)},
            host=self.host.snapshot(),
            pins={request_id: dict(enumerate(found.blocks, found.first)) for request_id, found in pins.items()},
            stores={name: shown for name, shown in transfers.items() if shown.request is None},
            loads={name: shown for name, shown in transfers.items() if shown.request is not None},
            unsent=tuple(self._unsent),
            filed={
                request_id: tuple(map(self._tiers[request_id].filed.get, range(len(table))))
                for request_id, table in device.tables.items()
            },
            offered={request_id: tier.offered for request_id, tier in self._tiers.items()},
            external={request_id: len(tier.external) for request_id, tier in self._tiers.items()},
            computing=frozenset(self._computing),
            cursor=self._cursor,
            stats=self.offer_stats,
        )

    # Parts of the steps above.

    def _drop_pins(self, tier: Tier) -> None:
        """Let the pinned host blocks go, last position first, in one call."""
        if tier.pins is not None:
            self.host.free(tier.pins.blocks[::-1])
            tier.pins = None

    def _outcome(self, block: int, key: bytes | None) -> str:
        """Return what becomes of an offered block, as ``OfferStats`` names it."""
        if key is None:
            return "unfiled"
        if key not in self.pool.keys_of(block):
            return "forgotten"
        if self.host.lookup(key) is not None:
            return "resident"
        if (block, key) in self._storing:
            return "in_flight"
        return "stored" if self.host.num_free else "host_full"

    def _worth_storing(self, block: int) -> bytes | None:
        """Return the first key of a free block under which it should be stored, if any."""
        if block in self._computing or not self.pool.has_keys(block):
            return None
        # A free block is no source of a store: that would hold it.
        return next((key for key in self._full_keys[block] if self.host.lookup(key) is None), None)

    def _take_host_block(self, block: int, key: bytes) -> tuple[int, int]:
        """Hold a host block to copy a device block to, for a store; return both (O2). There must be room."""
        if self.lazy and self._is_on_device(self.host.free_behind(None)):
            self._cursor = None  # A scan may have passed a block of which the host forgets the copy now.
        taken = self.host.allocate(1)
        assert taken is not None
        self._storing.add((block, key))
        return block, taken[0]

    def _is_on_device(self, host_block: int | None) -> bool:
        """Tell whether a device block carries a key of this host block."""
        keys = () if host_block is None else self.host.keys_of(host_block)
        return any(self.pool.lookup(key) is not None for key in keys)

    def _begin_store(self, pairs: list[tuple[int, int]], keys: list[bytes]) -> None:
        """Plan one store of these pairs, or as many as ``max_pairs`` makes of it."""
        for at, part in self._parts(pairs):
            self._begin(Store(self._next_id, part), keys[at : at + len(part)])

    def _parts(self, pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Pairs]]:
        """Cut pairs into those of one transfer each, with the index of the first."""
        size = self.max_pairs or max(1, len(pairs))
        return ((at, tuple(pairs[at : at + size])) for at in range(0, len(pairs), size))

    def _begin(self, message: Message, keys: list[bytes]) -> Transfer:
        """Put a transfer in flight. Its blocks are held already."""
        transfer = Transfer(message, keys, set(range(self.workers)))
        self._transfers[message.id] = transfer
        self._unsent[message.id] = message
        self._next_id += 1
        return transfer

    def _must_wait(self, message: Message) -> bool:
        """Tell whether a step still writes where a load would. What a store reads was computed when it was planned."""
        return isinstance(message, Load) and any(block in self._computing for _, block in message.pairs)

    def _end_store(self, transfer: Transfer) -> None:
        """Let a store find what it copied, unless it failed, and let its blocks go: each pair by itself (O2)."""
        pairs, failed = transfer.message.pairs, transfer.failed
        for (block, host_block), key in zip(pairs, transfer.keys, strict=True):
            if not failed:
                self.host.register(host_block, key, None)
            self._storing.remove((block, key))
        self._let_go([host_block for _, host_block in pairs], [block for block, _ in pairs])

    def _let_go(self, host_blocks: list[int], blocks: list[int]) -> None:
        """Let the blocks of a transfer go: each pair by itself, in order (O2).

        One call per tier makes no difference where each block has keys, or somebody else holds it: then none goes to
        the head of a queue, and the tail takes them in this order either way.
        """
        if _none_to_the_head(self.host, host_blocks) and _none_to_the_head(self.pool, blocks):
            self.host.free(host_blocks)
            self.pool.free(blocks)
            return
        for host_block, block in zip(host_blocks, blocks, strict=True):
            self.host.free((host_block,))
            self.pool.free((block,))

    def _end_load(self, transfer: Transfer) -> None:
        """Let the blocks of a load go: each pair by itself, in order (O2)."""
        pairs = transfer.message.pairs
        self._loading.difference_update(block for _, block in pairs)
        self._let_go([host_block for host_block, _ in pairs], [block for _, block in pairs])

    def _fail_load(self, transfer: Transfer) -> None:
        """Let the blocks of a load go, last first, and cut its request's table where they stand (O11).

        The table may have been cut, or dropped, or be that of the request's next life: it has a block of the load
        where the load put it, or nowhere, since nobody could take or find the block meanwhile.
        """
        entry = self._inside.get(transfer.request) if transfer.request is not None else None
        table = [] if entry is None else entry.table
        for index in reversed(range(len(transfer.message.pairs))):
            host_block, block = transfer.message.pairs[index]
            position = transfer.first + index
            self._loading.remove(block)
            self.host.free((host_block,))
            self.pool.free((block,))
            if position < len(table) and table[position] == block and transfer.request is not None:
                self.trim(transfer.request, len(table) - position)

    def _check_cursor(self) -> None:
        """Send the scan back to the head if its cursor left the queue, by the step that has just been done."""
        if self._cursor is not None and not self.pool.is_free(self._cursor):
            self._cursor = None

    def _transfer_snapshot(self, transfer: Transfer) -> TransferSnapshot:
        """Show a transfer."""
        return TransferSnapshot(
            pairs=transfer.message.pairs,
            keys=tuple(transfer.keys),
            reported=frozenset(range(self.workers)) - transfer.waiting,
            failed=transfer.failed,
            request=transfer.request,
            first=transfer.first,
        )


def _none_to_the_head(pool: BlockPool, blocks: list[int]) -> bool:
    """Tell whether each of these blocks, let go as often as it stands here, goes to the tail or stays held."""
    return all(pool.has_keys(block) or pool.ref_cnt(block) > times for block, times in Counter(blocks).items())

"""vLLM's HiSparse driven: a page of KV lies on the host, and may lie on the device too; who reads takes what is there.

The scheduler's side and the connector are the release's own; only what would copy is ours, and what the model runner
reads and writes is told as it would. On a device all that is copied stands in the order of the steps: rows that a pass
has written go to the host behind it, whole pages before the next pass. What a case decides is when the scheduler hears
that a page has come.
"""

from collections.abc import Sequence
from types import SimpleNamespace

from level import Level
from vllm_common import Keys, pool_state, since
from vllm_model import Tables
from vllm_reading import deferred
from vllm_remote_connector import RemoteSide
from vllm_transfers import Part, Transfers

__all__ = ["SparseConnector"]

_HOST = "host"
_APART = since((0, 32))
"""Whether the scheduler says where pages are resident apart from the tables; before that it sent these anew."""
_FETCHED_TO_HOST = frozenset((0,))
"""Of the groups that are fetched from elsewhere the first one is the source's."""


class SparseConnector:
    """What the model runner does with the connector of a scheduler; as `vllm_connectors.ModelConnector`."""

    def __init__(self, level: Level, scheduler, connector: dict, keys: Keys) -> None:
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
        from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
        from vllm.v1.hisparse.coordinator import get_hisparse_coordinator

        self._level, self._keys, self._scheduler = level, keys, scheduler
        self._coordinator = get_hisparse_coordinator(scheduler.kv_cache_manager)
        self._pool = self._coordinator.get_host_block_pool()
        self._transfers = Transfers(level, 1)
        self.tables = _Tables(level, scheduler, self._coordinator)
        worker = KVConnectorFactory.create_connector(
            scheduler.vllm_config, KVConnectorRole.WORKER, scheduler.kv_cache_config
        )
        mine, *others = getattr(worker, "_connectors", [worker])
        mine.connector_worker = _Copies(level, self._transfers, self.tables, not connector.get("late"))
        ends = zip(getattr(scheduler.connector, "_connectors", [None])[1:], others, strict=True)
        self._sides = [RemoteSide(a, [b], "", self._transfers, connector, _FETCHED_TO_HOST) for a, b in ends]
        self._runner = _runner(worker, scheduler.vllm_config)
        self._output = None
        self.tiers = {_HOST: {"blocks": self._pool.num_gpu_blocks, "null": self._pool.null_block.block_id}}
        self.tiers |= {tier: told for side in self._sides for tier, told in side.tiers.items()}
        self.notes = {"reads": _HOST, "eager": [_HOST]}
        self.resets = False
        self.exact = True
        self.told_beside = (_HOST,)
        """Both pools put their events into one queue."""

    def begin_step(self, scheduler_output) -> None:
        """Forget the rows of requests that are gone."""
        for r in (*scheduler_output.finished_req_ids, *(scheduler_output.preempted_req_ids or ())):
            self.tables.forget(r)

    def before_forward(self, scheduler_output) -> None:
        """Hand over what the last step left, and learn where pages lie."""
        self._runner.pre_forward(scheduler_output)

    def after_forward(self, scheduler_output) -> None:
        """Copy what was written."""
        self._runner.finish_forward()
        self._output = self._runner.post_forward(scheduler_output.finished_req_ids)

    def output(self):
        """Return what the connector reports with the last step that ended, once."""
        output, self._output = self._output, None
        return output

    def pending(self) -> int:
        """How many transfers are under way, for the scheduler or for us."""
        fetched = sum(side.pending() for side in self._sides)
        return max(self._transfers.pending(), len(self._coordinator.pending_spills) + fetched)

    def waits(self) -> bool:
        """Nothing lies below its host, for whose answer a request could wait."""
        return False

    def kept(self, _alive: Sequence[str]) -> int:
        """Nothing lies below its host that could know of requests."""
        return 0

    def complete(self, pick: int, how: int) -> dict | None:
        """End a copy, as `Transfers.complete`."""
        return self._transfers.complete(pick, how)

    def state(self) -> tuple[dict, dict]:
        """Return the host's pool, and by tier what is held there beside the tables."""
        coordinator, host = self._coordinator, self._coordinator.host_manager
        on_host = [block for blocks in host.req_to_blocks.values() for block in blocks]
        on_device = [
            block for hot in coordinator.hot_managers for blocks in hot.req_to_blocks.values() for block in blocks
        ]
        for resident in coordinator.resident_managers:
            for r, blocks in resident.req_to_blocks.items():
                loose = coordinator.request_states[r].unpinned_pages if r in coordinator.request_states else ()
                row = resident.get_residency_row(r) if _APART else blocks
                on_device += [block for page, block in enumerate(row) if page not in loose]
        for spill in coordinator.pending_spills.values():
            on_host.append(spill.host_block)
            on_device += () if spill.enqueue_applied else spill.resident_blocks
        for pair in coordinator._retained_copies.values():
            on_host += pair
        states = {id(spill.request_state): spill.request_state for spill in coordinator.pending_spills.values()}
        for state in states.values():
            on_host += getattr(state.publication, "detached_blocks", None) or ()
        held = {"device": on_device, _HOST: on_host}
        holds = {tier: [block.block_id for block in blocks if not block.is_null] for tier, blocks in held.items()}
        # A block that is copied before it is written is held twice until the copy is done.
        holds[_HOST] += [b.block_id for pair in host._pending_cow_copies for b in pair if not b.is_null]
        holds[_HOST] += deferred(self._scheduler, self._pool)
        return {_HOST: pool_state(self._pool, self._keys)}, holds


class _Tables(Tables):
    """Block tables as attention sees them: of each page of the sparse layers the resident one, or else that of the
    host (which the protocol numbers behind the device's blocks); of the indexers what the scheduler says."""

    def __init__(self, level: Level, scheduler, coordinator) -> None:
        super().__init__(level)
        roles = [group.role for group in scheduler.kv_cache_config.kv_cache_groups]
        self._source = coordinator.host_group_id
        self._indexer = next(g for g, role in enumerate(roles) if role == "hisparse_indexer")
        self._resident = coordinator.resident_managers[0].kv_cache_group_id
        self._block = coordinator.host_manager.block_size
        self._behind = scheduler.kv_cache_config.num_blocks
        self._null = scheduler.kv_cache_manager.block_pool.null_block.block_id
        self._rows: dict[str, dict[int, int]] = {}
        """By request and page, the resident block that the device was told of; the null block where there is none."""
        self._told: dict[str, list[int]] = {}
        self.all_resident = False
        """Whether the scheduler says that this step reads resident pages alone."""
        self.written: dict[str, tuple[list[int], int, int]] = {}
        """What this step writes: the append-only table of resident pages, the first position, and how many."""

    def has(self, r: str, group: int, at: int, blocks: list[int]) -> None:
        """The scheduler sends entries of a table."""
        if group == self._indexer:
            self._level.tell("table", r, 1, at, blocks)

    def place(self, r: str, pages: list[int], blocks: list[int]) -> None:
        """The scheduler says where pages of a request are resident."""
        self._rows.setdefault(r, {}).update(zip(pages, blocks, strict=True))

    def forget(self, r: str) -> None:
        """A request has left the device."""
        self._rows.pop(r, None)
        self._told.pop(r, None)

    def before_pass(self, r: str, tables: list[list[int]], start: int, count: int) -> None:
        """A forward pass reads by where pages are resident, and writes by the append-only table."""
        row, own, host = self._rows.get(r, {}), tables[self._resident], tables[self._source]
        if not _APART:
            row = dict(enumerate(own))
        first, begun = start // self._block, start % self._block
        entries = [self._read(row.get(page), host, page) for page in range(first)]
        entries += own[first:]
        if begun and first < len(own):  # What is written before in this page is read where that lies.
            entries[first] = row.get(first) or own[first]
        if self._told.get(r) != entries:
            self._told[r] = entries
            self._level.tell("table", r, 0, 0, list(entries))
        self.written[r] = own, start, count

    def _read(self, resident: int | None, host: list[int], page: int) -> int:
        """Where a page is read."""
        if resident not in (None, self._null) or self.all_resident:
            return self._null if resident is None else resident
        return self._behind + host[page] if page < len(host) else self._null

    def found(self, tables: list[list[int]]) -> list[list[int]]:
        """What a lookup handed out, as the protocol has it."""
        return [[self._behind + block for block in tables[self._source]], tables[self._indexer]]

    def refused(self, _r: str, *_rest) -> None:
        """Nothing is told: room may be missing on the host."""

    def shown(self, tables: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        """The tables of a state: the indexers'. All else is held (`SparseConnector.state`)."""
        return {r: [[], table[self._indexer]] for r, table in tables.items()}

    def slots(self) -> set[int]:
        """The slots that this step has written, by block of the first resident group."""
        found = set()
        for own, start, count in self.written.values():
            for position in range(start, start + count):
                page, slot = divmod(position, self._block)
                if page < len(own) and own[page] != self._null:
                    found.add(own[page] * self._block + slot)
        return found

    @property
    def decodes(self) -> bool:
        """Whether each request of this step computes one token."""
        return all(count == 1 for _, _, count in self.written.values())

    def span(self, source: int, destination: int, count: int) -> list:
        """Rows that are copied to the host, as the protocol has them."""
        (block, slot), (host, to) = divmod(source, self._block), divmod(destination, self._block)
        return ["device", block, slot, _HOST, host, to, count]


class _Copies:
    """Stands where the connector's worker is, with its calls."""

    def __init__(self, level: Level, transfers: Transfers, tables: _Tables, eager: bool) -> None:
        self._level, self._transfers, self._tables, self._eager = level, transfers, tables, eager
        self._mirrors: list = []
        self._left: list = []
        """Pages that the last step completed, to be handed over before the next one."""
        self._enqueued: list[int] = []
        self._parts: list[tuple[Part, list[int]]] = []
        self._copied: list[int] = []

    def start_step(self, metadata, *_args, **_kwargs) -> None:
        """Before a forward pass: pages of the last step go to the host, what is imported comes from there."""
        self._submit(self._left)
        if metadata.host_block_copies:
            pairs = [[_HOST, c.src_block_id, _HOST, c.dst_block_id] for c in metadata.host_block_copies]
            self._level.tell("copied", pairs)
            self._copied += [copy.dst_block_id for copy in metadata.host_block_copies]
        transfers = metadata.command.page_transfers if metadata.command is not None else []
        restored = [transfer for transfer in transfers if transfer.restore]
        if restored:
            self._level.tell("copied", [[_HOST, t.host_block_id, "device", t.resident_block_ids[0]] for t in restored])
            self._report(restored)
        self._left = [t for t in transfers if not t.restore and t.after_forward]
        self._submit([t for t in transfers if not t.restore and not t.after_forward])
        self._mirrors = [mirror for mirrors in metadata.row_mirrors.values() for mirror in mirrors]
        self._tables.all_resident = metadata.all_context_pages_resident
        self._tables.written.clear()
        for r, update in metadata.residency_updates.items() if _APART else ():
            self._tables.place(r, update.pages, update.block_ids[0])

    def prepare_forward(self, _attention) -> None:
        """Nothing: what is read of the host is brought to the device as it is asked for."""

    def finish_forward(self) -> None:
        """Behind a forward pass: the rows that it has written go to the host."""
        if not self._tables.written or (self._tables.decodes and not self._eager):
            return
        written, spans = self._tables.slots(), []
        for mirror in self._mirrors:
            source, destination = mirror.source_starts[0], mirror.destination_start
            spans += [
                self._tables.span(source + n, destination + n, 1)
                for n in range(mirror.num_rows)
                if source + n in written
            ]
        if spans:
            self._level.tell("rows", spans)

    def take_transfer_updates(self) -> tuple[list[int], list[int]]:
        """Return the pages that were handed over since the last call, and those that have come, in order."""
        enqueued, self._enqueued = self._enqueued, []
        completed: list[int] = []
        while self._parts and self._parts[0][0].done:
            completed += self._parts.pop(0)[1]
        return enqueued, completed

    def take_completed_host_copies(self) -> list[int]:
        """Return the blocks of the host that were copied to since the last call."""
        copied, self._copied = self._copied, []
        return copied

    def get_kv_connector_stats(self) -> None:
        """There are none."""

    def _submit(self, transfers: list) -> None:
        """Hand pages over: row by row they are there already, or they are copied now, before the pass that follows."""
        if transfers and not self._eager:
            pairs = [["device", t.resident_block_ids[0], _HOST, t.host_block_id] for t in transfers]
            self._level.tell("copied", pairs)
        self._report(transfers)

    def _report(self, transfers: list) -> None:
        """That they have come the scheduler hears when the case says so."""
        if transfers:
            numbers = [transfer.transfer_id for transfer in transfers]
            self._enqueued += numbers
            self._parts.append((self._transfers.submit(_HOST, "page", 0, numbers[0], []), numbers))


def _runner(worker, settings):
    """The second model runner's own life cycle of a connector around a forward pass, with this one."""
    from vllm.v1.worker.gpu import kv_connector as module

    module.is_forward_context_available = lambda: True
    module.get_forward_context = lambda: SimpleNamespace()
    runner = module.ActiveKVConnector.__new__(module.ActiveKVConnector)
    runner.vllm_config, runner.kv_connector = settings, worker
    runner._pending_load_kwargs, runner._disabled = None, False
    return runner

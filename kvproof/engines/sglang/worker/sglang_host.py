"""A host tier below a tree: the release's own pools, controller and transfers, over memory that is none.

What a release copies is told when it is submitted. A copy is over when a case says so, when the forward pass waits for
it, or when the release does; those of one direction end in the order of their stream.
"""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import torch
from level import Refused
from sglang.srt.managers import cache_controller
from sglang.srt.mem_cache import unified_radix_cache
from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.hybrid_cache import hybrid_pool_assembler as assembler
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.l2_transfer import TransferCompletion
from sglang.srt.mem_cache.pool_host import base
from sglang.srt.mem_cache.pool_host.base import HostKVCache
from sglang.srt.mem_cache.pool_host.group import HostPoolGroup
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang_drift import states_of
from sglang_memory import Memory
from sglang_release import BEFORE_CHECKPOINTS, STATES_BELOW
from sglang_storage import PLACES, Storage

__all__ = ["Host", "attach"]

_OF_STORAGE = ("storage_backend", "storage_backend_extra_config", "prefetch_threshold", "model_name")
"""What a controller is told of a storage below."""


_BY_NUMBER = "transfer_layer_num" in inspect.signature(assembler.build_pool_entry).parameters
_LAYERS, _SUBMITTED_LAYERS = (
    ("transfer_layer_num", "layer_num") if _BY_NUMBER else ("transfer_layer_id_max", "transfer_layer_id_max")
)
"""What says how many layers there are: of pools, and of a load; the former before 0.5.21."""


_PENDING = ("write_through_pending_id", "load_back_pending_id")
"""What a node is marked with while a copy of it is under way, since 0.5.21."""


class _Event:
    """A point of a stream: whoever waits for it waits for the copy that was submitted last when it was recorded."""

    submitted: ClassVar["_Copy | None"] = None

    def __init__(self, **_how) -> None:
        self.copy: _Copy | None = None

    def record(self, _stream=None) -> None:
        """It stands behind the copy that is being submitted."""
        self.copy = _Event.submitted

    def query(self) -> bool:
        """Whether that is over."""
        return self.copy is None or self.copy.over

    def synchronize(self) -> None:
        """Wait for it."""
        if self.copy is not None:
            self.copy.stream.finish(self.copy)

    def wait(self, _stream=None) -> None:
        """A stream waits for it: forward passes are told as they are launched."""


class _Copy:
    """A copy under way."""

    def __init__(self, number: int, stream: "_Stream", pairs: list[list]) -> None:
        self.number, self.stream, self.pairs, self.over = number, stream, pairs, False


class _Stream:
    """Copies of one direction, in their order."""

    def __init__(self, tell: Callable) -> None:
        self._tell, self.under_way = tell, list[_Copy]()

    def finish(self, last: _Copy) -> None:
        """All copies up to this one end."""
        while not last.over:
            copy = self.under_way.pop(0)
            copy.over = True
            self._tell("copy", copy.number, "end", copy.pairs)


class _Transfers:
    """Stands in for a release's engine of transfers: it tells them."""

    def __init__(self, tell: Callable, pairs_of: Callable) -> None:
        self._tell, self._pairs_of, self._begun = tell, pairs_of, 0
        self.stores, self.loads = _Stream(tell), _Stream(tell)
        self.device_to_host_stream = self.host_to_device_stream = SimpleNamespace(wait_stream=lambda _stream: None)

    def submit_device_to_host(self, transfers: list) -> TransferCompletion:
        """Copies to the host begin."""
        pairs = [["device", a, "host", b] for transfer in transfers for a, b in self._pairs_of(transfer)]
        return self._submitted(self.stores, pairs)

    def submit_host_to_device(self, transfers: list, *, on_layer_done=None, **how):
        """Copies from the host begin; forward passes that read them wait for their layers."""
        pairs = [["host", b, "device", a] for transfer in transfers for a, b in self._pairs_of(transfer)]
        completion = self._submitted(self.loads, pairs)
        _Event.submitted = completion.finish_event.copy
        for layer in range(how[_SUBMITTED_LAYERS] if on_layer_done is not None else 0):
            on_layer_done(layer)
        _Event.submitted = None
        return completion

    def _submitted(self, stream: _Stream, pairs: list[list]) -> TransferCompletion:
        self._begun += 1
        copy = _Copy(self._begun, stream, pairs)
        stream.under_way.append(copy)
        self._tell("copy", copy.number, "begin", pairs)
        finished = _Event()
        finished.copy = copy
        return TransferCompletion(_Event(), finished, False)


def _size(tokens: int) -> dict:
    """Return what says that a pool of the host is for so many tokens of a byte; before 0.5.22, a pool of the device."""
    layers = {"start_layer": 0, "end_layer": 1}
    if "device_pool" in inspect.signature(HostKVCache.__init__).parameters:
        return {"device_pool": SimpleNamespace(store_dtype=torch.uint8, size=tokens, **layers)}
    return {"dtype": torch.uint8, "device_capacity_tokens": tokens, "size_per_token": 1, "is_dummy": True, **layers}


def _of_states(pool) -> dict:
    """Return what says that a pool of the host is for states like these; before 0.5.22, the pool of the device."""
    if "device_pool" in inspect.signature(MambaPoolHost.__init__).parameters:
        return {"device_pool": pool}
    (info,) = pool.get_device_pool_infos()
    return {"buffer_info": info.buffer_info, "device_capacity": pool.size}


class _NoMemory:
    """What pools of the host have where there is no memory behind their slots."""

    storage = None
    """The tier below, if there is one."""
    first: int
    """The number of its first page among those of all pools."""
    page_size: int

    def init_kv_buffer(self) -> None:
        """Allot nothing."""

    def page_of(self, slot) -> int:
        """Return the page of a slot."""
        return int(slot) // self.page_size + self.first

    def get_data_page(self, index, **_how) -> torch.Tensor:
        """Return what stands for a page's content: its number."""
        return torch.tensor([self.page_of(index)])

    def get_dummy_flat_data_page(self) -> torch.Tensor:
        """Return where such content goes."""
        return torch.zeros(1, dtype=torch.int64)

    def set_from_flat_data_page(self, index, data_page: torch.Tensor) -> None:
        """Read a page from the file whose content this is."""
        self.storage.read(int(data_page[0]), self.page_of(index))


class _Pool(_NoMemory, HostKVCache):
    """A release's pool of host slots."""

    def __init__(self, memory: Memory, pages: int, first: int) -> None:
        self.first, self.layer_num = first, 1
        self.target_layer_num = self.layer_num
        super().__init__(
            **_size((pages - 1) * memory.page),  # A release makes it one page larger.
            host_to_device_ratio=1.0,
            host_size=0,
            page_size=memory.page,
            layout="layer_first",
            pin_memory=False,
            device="cpu",
        )

    def get_size_per_token(self) -> int:
        """Return how many bytes a token has."""
        return 1


class _States(_NoMemory, MambaPoolHost):
    """A release's pool of states on the host."""

    def __init__(self, memory: Memory, count: int, first: int) -> None:
        self.first = first
        super().__init__(
            **_of_states(memory.rows.mamba_pool),
            # A release makes it one state larger; the half keeps what it rounds down where it is.
            host_to_device_ratio=(count - 0.5) / memory.states,
            host_size=0,
            layout="page_first_direct",
            pin_memory=False,
        )

    def _init_write_back_staging_buffers(self) -> None:
        """Nor is there any to gather states in."""
        self.can_use_write_back_jit = False


_Pool.__abstractmethods__ = _States.__abstractmethods__ = frozenset()  # Nobody reads or moves what is not there.

_POOLS = {ComponentType.FULL: _Pool, ComponentType.SWA: _Pool, ComponentType.MAMBA: _States}

# Before 0.5.22 a release asks the machine for ten gigabytes that are free beside a pool, which takes none here.
base.HICACHE_HOST_MEMORY_RESERVE_BYTES = -(1 << 50)


_FIELDS = {field.name for field in dataclasses.fields(assembler.StackBuildResult)}
_MORE = {name: value for name, value in (("pool_declarations", ()), ("transfer_layer_num", 1)) if name in _FIELDS}
"""What else a stack says: the pools that it has declared (since 0.5.22), and how many layers it has (before 0.5.21)."""


class _Strategy(assembler.StackStrategy):
    """How a release puts pools and controller together, with our pools; it is what it does for real ones."""

    host: ClassVar["Host"]

    def matches(self, _kvcache, _components) -> bool:
        """There are no others here."""
        return True

    def build(self, *, cache, params, load_cache_event, **how) -> assembler.StackBuildResult:
        """Build what `_PlainKvStrategy`, `_SwaStrategy`, `_MambaStrategy` and `_MambaSwaStrategy` do."""
        host, memory = self.host, self.host.memory
        device = memory.allocator.get_kvcache()
        one = {"layer_mapping": {0: 0}, _LAYERS: 1}
        components = dict(zip(memory.components, host.pools, strict=True))
        entries = [
            assembler.build_pool_entry(
                name=PoolName.KV, host_pool=host.pools[0], is_anchor=True, device_pool=device, **one
            )
        ]
        for kind in memory.components[1:]:
            if kind.is_mamba:
                name, slots, pool = PoolName.MAMBA, states_of(memory.rows), memory.rows.mamba_pool
                evict = assembler._evict_mamba_for_device_alloc
            else:
                name, slots, pool = PoolName.SWA, memory.allocator.swa_attn_allocator, device
                evict = assembler._evict_swa_for_device_alloc
            entries.append(
                assembler.build_pool_entry(
                    name=name,
                    host_pool=components[kind],
                    device_pool=pool,
                    host_evict_fn=partial(cache.evict_host, component_type=kind),
                    device_evict_fn=partial(evict, cache),
                    device_alloc_fn=slots.alloc,
                    device_free_fn=slots.free,
                    **one,
                )
            )
        group = HostPoolGroup(entries)
        controller = HybridCacheController(
            params.token_to_kv_pool_allocator,
            group,
            params.page_size,
            params.tp_cache_group,
            load_cache_event=load_cache_event,
            write_policy=host.policy,
            io_backend="direct",
            host_memory_mode="cache",
            **{_LAYERS: 1},
            **{name: how[name] for name in _OF_STORAGE if name in how},
        )
        states = {"register_req_to_token_counter": bool(memory.states)}
        return assembler.StackBuildResult(group, controller, components, **states, **_MORE)


assembler.register_stack_strategy(_Strategy())
unified_radix_cache.atexit = SimpleNamespace(register=lambda _last: None)  # It would keep every tree there ever was.
_CPU = cache_controller.device_module
_FORWARD = SimpleNamespace(wait_event=_Event.synchronize, wait_stream=lambda _stream: None)
"""The stream that passes run on: what it waits for is over for what it does next."""
cache_controller.device_module = SimpleNamespace(Event=_Event, Stream=_CPU.Stream, current_stream=lambda: _FORWARD)


class Host:
    """The host tier of a tree: so many pages, or states, of each of its components."""

    def __init__(self, memory: Memory, sizes: dict, policy: str) -> None:
        self.memory, self.policy, self.page = memory, policy, memory.page
        self.sizes = [sizes[kind] for kind in memory.components]
        if min(self.sizes) < 1:
            raise Refused("a host tier has a page of each kind at least")
        self.pools = [
            _POOLS[kind](memory, count, sum(self.sizes[:g]))
            for g, (kind, count) in enumerate(zip(memory.components, self.sizes, strict=True))
        ]
        self.controller: HybridCacheController
        self.transfers: _Transfers
        self.cache = None
        self.storage: Storage | None = None

    # ---------------------------------------------------------------------------------------------- to the release

    def begins(self, producer: int) -> None:
        """A forward pass begins, and says which load its batch begins with (-1: none)."""
        self.controller.layer_done_counter.set_consumer(producer)

    def wait(self, producer: int) -> None:
        """A forward pass waits for the load that its batch begins with."""
        self.controller.layer_done_counter.events[producer].finish_event.synchronize()

    def finish(self, stores: int, loads: int) -> int:
        """So many copies to the host, and so many from it, come to their end; return how many did."""
        ended = 0
        for stream, count in ((self.transfers.stores, stores), (self.transfers.loads, loads)):
            for copy in stream.under_way[:count]:
                stream.finish(copy)
                ended += 1
        return ended

    @property
    def under_way(self) -> int:
        """Copies that have begun and not ended."""
        return len(self.transfers.stores.under_way) + len(self.transfers.loads.under_way)

    # ---------------------------------------------------------------------------------------------- to the kit

    def pool(self) -> dict:
        """Return the pages that are free, and how many the release counts."""
        free = [page for pool in self.pools for page in self._free(pool)]
        return {"free": free, "num_free": sum(pool.available_size() // self.page for pool in self.pools)}

    def of_node(self, node) -> list[list]:
        """Return what a node of the tree has on the host, of each group: its slots, and how often they are locked."""
        return [self._held(g, node.component_data[kind]) for g, kind in enumerate(self.memory.components)]

    def nodes(self, g: int) -> list[list]:
        """Return the nodes of the tree, parents first: its id and its parent's, what it has of a group on the host and
        how often that is locked, whether anything holds the node, and whether the device has that too."""
        waiting, found = [*self.cache.tree_core.root_node.children.values()], []
        while waiting:
            node = waiting.pop()
            data = [node.component_data[each] for each in self.memory.components]
            slots, lock = self._held(g, data[g])
            held = any(x.lock_ref or x.host_lock_ref for x in data) or any(
                getattr(node, name, None) is not None for name in _PENDING
            )
            found.append([node.id, node.parent.id, slots, lock, held, data[g].value is not None])
            waiting.extend(node.children.values())
        return found

    @property
    def tiers(self) -> dict:
        """What this and the storage below are to the kit."""
        storage = {"storage": {"blocks": PLACES, "persists": True}}
        return {"host": {"blocks": sum(self.sizes)}} | ({} if self.storage is None else storage)

    @property
    def notes(self) -> dict:
        """What is promised of it: what is written through is stored with the window and the state that it has, and what
        the host has goes on to a storage below.

        What comes from a storage may lack these, and a request that computes it again may bring them, to the device
        alone. Releases before those that are driven with states were not read for this.
        """
        if not STATES_BELOW:
            return {}
        if self.storage is not None:
            return {"below": ["host", "storage"]} | self._waits
        return {"parts": ["host"]} if self.policy == "write_through" else {}

    @property
    def _waits(self) -> dict:
        """What who waits for a storage gets of it: as much as a load is worth, where there is room on all tiers.

        Of a drafter with layers of its own how far a page is known is another matter.
        """
        if self.cache.prefetch_stop_policy != "wait_complete" or self.memory.pairs:
            return {}
        kinds = zip(self.memory.components, self.sizes, strict=True)
        pages = [self.memory.pages, *(size for kind, size in kinds if not kind.is_mamba)]
        pages += [self.memory.window_pages] if self.memory.window else []
        return {"waits": [max(self.cache.load_back_threshold, self.cache.prefetch_threshold), min(pages) * self.page]}

    def locks(self) -> list[tuple]:
        """Return each copy that holds a lock: a name, the node, and whether its lock has let go of the window."""
        stores, loads = self.cache.ongoing_write_through.values(), self.cache.ongoing_load_back.values()
        found = [("store", each.node_id, each.lock_params) for each in stores]
        found += [("load", each.node_id, each.lock_params) for each in loads]
        return [(f"{what} {node}", node, False) for what, node, params in found if params is not None]

    def anchors(self) -> list[tuple[str, int, bool]]:
        """Return what holds a node on the host, and whether it holds full attention there: loads, and what the storage
        reads and writes.

        What is loaded of the window or the state alone holds that alone.
        """
        loading = self.cache.ongoing_load_back.values()
        loads = [(f"load {x.node_id}", x.node_id, x.host_lock_params) for x in loading]
        found = loads + ([] if self.storage is None else self.storage.anchors())
        return [(name, node, _holds_full(receipt)) for name, node, receipt in found]

    def held(self) -> list[int]:
        """Return the pages that reads from the storage hold, each as often as one does."""
        slots = () if self.storage is None else self.storage.held()
        return [self.pools[g].page_of(slot) for g, slot in slots if slot % self.page == 0]

    def unsettled(self) -> set[int]:
        """Return the pages that stores write whose end the release has not taken note of.

        Its own books name nodes: one that is on the host may have its window stored once more.
        """
        waiting = [(self.pools[0], one.host_indices) for one in self.controller.write_queue]
        pool_of = self.controller.mem_pool_host.get_pool
        waiting += [
            (pool_of(transfer.name), transfer.host_indices)
            for one in self.controller.write_queue
            for transfer in one.pool_transfers or ()
        ]
        under_way = [ack.finish_event.copy.pairs for ack in self.controller.ack_write_queue]
        pages = {pool.page_of(slot) for pool, slots in waiting for slot in slots.tolist()}
        return pages | {b for pairs in under_way for *_, b in pairs}

    def _held(self, g: int, data) -> list:
        first = self.pools[g].first * self.page
        return [[] if data.host_value is None else (data.host_value + first).tolist(), data.host_lock_ref]

    def _free(self, pool: _Pool) -> list[int]:
        slots = torch.cat([pool.free_slots, *pool.release_slots]).tolist()
        return sorted({pool.page_of(slot) for slot in slots})

    def pairs_of(self, transfer) -> list[tuple[int, int]]:
        """Return the pages that a transfer moves: of the device and of the host."""
        pool, memory = transfer.host_pool, self.memory
        first = memory.firsts[self.pools.index(pool)]
        slots = zip(transfer.device_indices.tolist(), transfer.host_indices.tolist(), strict=True)
        return list(dict.fromkeys((a // self.page + first, pool.page_of(b)) for a, b in slots))


def _note_host_locks(core) -> None:
    """Let a receipt say whether it is of a lock on full attention: before 0.5.22 it does not."""
    lock = core.inc_host_lock_ref

    def noted(node):
        data = core.node_by_id(node).component_data[ComponentType.FULL]
        before = data.host_lock_ref
        result = lock(node)
        holds, receipt_of = data.host_lock_ref > before, result.to_dec_params

        def receipt():
            made = receipt_of()
            made.holds_full = holds
            return made

        result.to_dec_params = receipt
        return result

    core.inc_host_lock_ref = noted


def _holds_full(receipt) -> bool:
    """Whether a receipt is of a lock on full attention."""
    if BEFORE_CHECKPOINTS:
        return getattr(receipt, "holds_full", False)
    return ComponentType.FULL in receipt.component_host_lock_uuids


def _tell_evictions(cache, host: Host, tell: Callable) -> None:
    """Let a tree tell what it gives up on the host, and what it leaves there."""
    evict = cache.evict_host

    def evict_host(num_tokens, component_type=ComponentType.FULL):
        kinds = host.memory.components
        if component_type not in kinds:
            return evict(num_tokens, component_type)
        g = kinds.index(component_type)
        before = host.nodes(g)
        told = evict(num_tokens, component_type)
        left = {node: len(slots) for node, _, slots, *_ in host.nodes(g)}
        places = {node: at for at, (node, *_) in enumerate(before)}
        rows = [[places.get(up, -1), slots, left.get(node), *more] for node, up, slots, *more in before]
        tell("makes_room", "host", g, num_tokens, told, rows)
        return told

    cache.evict_host = evict_host


def attach(cache, params, memory: Memory, tell: Callable, *, sizes: dict, policy: str, storage: bool) -> Host:
    """Give a tree its host tier, and a storage below that, as a server does that is started with them."""
    host = _Strategy.host = Host(memory, sizes, policy)
    host.cache = cache
    _tell_evictions(cache, host, tell)
    cache.init_hicache(SimpleNamespace(file_storage_path=None), params)
    host.controller = cache.cache_controller
    if BEFORE_CHECKPOINTS:
        _note_host_locks(cache.tree_core)
    host.transfers = host.controller.l2_transfer_engine = _Transfers(tell, host.pairs_of)
    if storage:
        host.storage = Storage(cache, tell)
        for pool in host.pools:
            pool.storage = host.storage
    return host

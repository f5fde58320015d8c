"""`LMCacheEngine` without a GPU and without threads: how one is made, and the connector between it and a request's KV.

The connector is the kit's. What a request's KV is on the device is rows of stamps, one a layer.
"""

import asyncio
import functools
import threading
from types import SimpleNamespace

import torch
from drift import drifted
from level import Refused
from lmcache.v1.cache_engine import LMCacheEngine
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.gpu_connector.gpu_connectors import VLLMPagedMemLayerwiseGPUConnector
from lmcache.v1.gpu_connector.mock_gpu_connector import MockGPUConnector
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.pin_monitor import PinMonitor
from lmcache.v1.storage_backend import storage_manager
from lmcache.v1.token_database import ChunkedTokenDatabase
from lmcache_setup import CHUNK, POLICIES, UNIT, start_nothing

__all__ = ["LayerConnector", "Options", "WholeConnector", "made", "run"]


class Options:
    """A setup, checked.

    ``policy``, ``units`` of memory; ``layers``, above 0 where chunks are stored layer by layer; ``partial``, where the
    last chunk of a prompt may be short; ``prefetch``, where what a lookup finds is fetched at once, on an event loop.
    """

    tensors, paged = 1, False

    def __init__(self, setup: dict) -> None:
        unknown = sorted(set(setup) - {"policy", "units", "layers", "partial", "prefetch"})
        if unknown:
            raise Refused(f"there is no option {unknown[0]}")
        self.policy: str = setup["policy"]
        self.units: int = setup["units"]
        self.layers: int = setup.get("layers", 0)
        self.partial, self.prefetch = bool(setup.get("partial")), bool(setup.get("prefetch"))
        if self.policy not in POLICIES or self.units < 1:
            raise Refused(f"policy is one of {', '.join(POLICIES)}; units must be there")
        if self.layers and self.prefetch:
            raise Refused("what is stored layer by layer is not prefetched")

    @property
    def groups(self) -> int:
        """Layers that have a tensor of their own."""
        return self.layers or 1


class WholeConnector(MockGPUConnector):
    """Copies whole chunks between memory objects and the rows of a request (``kvcaches``)."""

    memory = None

    def batched_from_gpu(self, memory_objs, starts, ends, **kwargs) -> None:
        """Leave a request's stamps in objects."""
        kwargs["kvcaches"].taken = starts
        for obj, start, end in zip(memory_objs, starts, ends, strict=True):
            self.memory.write(obj, kwargs["kvcaches"].rows[0][start:end], 0)

    def batched_to_gpu(self, memory_objs, starts, ends, **kwargs) -> None:
        """Take them back."""
        for obj, start, end in zip(memory_objs, starts, ends, strict=True):
            kwargs["kvcaches"].rows[0][start:end] = self.memory.read(obj, 0)[0]


class LayerConnector(VLLMPagedMemLayerwiseGPUConnector):
    """The same, a layer a round. The release takes none that is not one of its own."""

    memory = None

    def __init__(self, layers: int) -> None:
        self._layers = layers

    def get_shape(self, num_tokens: int) -> torch.Size:
        """What a layer of so many tokens takes."""
        return torch.Size([num_tokens, 2, UNIT // 8])

    def batched_from_gpu(self, memory_objs, starts, ends, **kwargs):
        """Leave a layer's stamps in its objects, then wait."""
        request = kwargs["kvcaches"]
        request.taken, request.storing = starts, [list(row) for row in memory_objs]
        for layer in range(self._layers):
            for obj, start, end in zip(memory_objs[layer], starts, ends, strict=True):
                self.memory.write(obj, request.rows[layer][start:end], layer)
            yield
        yield

    def batched_to_gpu(self, starts, ends, **kwargs):
        """Take a layer's stamps out of the objects that are sent."""
        request = kwargs["kvcaches"]
        for layer in range(self._layers):
            for obj, start, end in zip((yield), starts, ends, strict=True):
                request.rows[layer][start:end] = self.memory.read(obj, layer)[0]
        yield
        yield


class _Still:
    """A thread that is not started: whoever drives the engine runs its event loop."""

    def __init__(self, **_kwargs) -> None: ...

    def start(self) -> None: ...


_loops: list[asyncio.AbstractEventLoop] = []


def made(options: Options, answers) -> LMCacheEngine:
    """An engine with a backend in CPU memory; ``answers`` is told what a prefetch has found."""
    problem = _problem()
    if problem is not None:
        raise Refused(f"this release is not known to the adapter: {problem}")
    config = LMCacheEngineConfig.from_defaults(
        chunk_size=CHUNK,
        local_cpu=True,
        max_local_cpu_size=options.units * UNIT / 1024**3,
        cache_policy=options.policy,
        use_layerwise=bool(options.layers),
        save_unfull_chunk=options.partial,
        enable_async_loading=options.prefetch,
        py_enable_gc=True,
        extra_config={"local_cpu.pinned_align_bytes": UNIT},
    )
    shape = (options.groups, 2, CHUNK, 1, UNIT // 8)
    metadata = LMCacheMetadata("model", 1, 1, 0, 0, torch.float32, shape, chunk_size=CHUNK)
    PinMonitor.start_monitoring = start_nothing
    PinMonitor._instance = None
    storage_manager.threading = SimpleNamespace(Thread=_Still, Lock=threading.Lock, RLock=threading.RLock)
    connector = LayerConnector(options.layers) if options.layers else WholeConnector(shape)
    engine = LMCacheEngine(config, metadata, ChunkedTokenDatabase(config, metadata), connector, None, None)
    engine.post_init(async_lookup_server=answers)
    while _loops:
        _loops.pop().close()
    _loops.append(engine.storage_manager.loop)
    return engine


def run(loop: asyncio.AbstractEventLoop) -> None:
    """Run what waits on an event loop, to its end."""
    _round(loop)
    while asyncio.all_tasks(loop):
        _round(loop)
    _round(loop)


def _round(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


_PARAMETERS = (
    (LMCacheEngine, "store", ("self", "tokens", "hashes", "offsets", "mask", "kwargs")),
    (LMCacheEngine, "store_layer", ("self", "tokens", "mask", "kwargs")),
    (LMCacheEngine, "retrieve", ("self", "tokens", "mask", "kwargs")),
    (LMCacheEngine, "retrieve_layer", ("self", "tokens", "mask", "kwargs")),
    (LMCacheEngine, "lookup_unpin", ("self", "lookup_id")),
    (LMCacheEngine, "clear", ("self", "tokens", "locations", "request_configs")),
    (LMCacheEngine, "post_init", ("self", "kwargs")),
)
"""Methods and their parameters."""


@functools.cache
def _problem() -> str | None:
    return drifted(_PARAMETERS)

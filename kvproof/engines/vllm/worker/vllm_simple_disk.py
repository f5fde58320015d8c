"""The disk of vLLM's `SimpleCPUOffloadConnector` (``kv_offload_backend`` ``disk``, from 0.28 on): the release's own
back end, with its queues, the loops of its two threads, its staging buffers, its reads and writes.

Ours are the disk, the device's memory and streams, and the moments of the threads: one takes what is next in its queue
when the case says that the oldest copy of its stream ends. What the device is given it does when somebody waits for it,
and no sooner: so what is still to be copied out of a staging buffer meets what is in it by then. Each block that is
copied to a buffer puts a code of its own there, so that what is told of a copy is what the release's code copied. A
read or write may fail, or be too short; an error ends the thread that meets it, as it does a thread of Python's.
"""

import itertools
from collections import deque
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch
from level import Refused
from vllm_common import VERSION
from vllm_disk import Disk
from vllm_transfers import Part, Transfers

try:
    from vllm.v1.simple_kv_offload import disk_backend as module
except ImportError:
    module = None  # Before 0.28 there is the host alone.

__all__ = ["DiskCopies", "extra_config"]

_LAYERS = ("a", "b")
"""More than one, so that a block is read and written in parts."""
_BLOCK = 4096
"""Bytes of a block, of all layers: what a disk takes that passes over the page cache."""
_PATH = "/disk"


def extra_config(connector: dict, page: int) -> dict:
    """Return what the release is to be told of its disk; its size is that of one worker."""
    if module is None:
        raise Refused(f"vLLM {VERSION} has no disk for blocks")
    return {
        "kv_offload_backend": "disk",
        "disk_path": _PATH,
        "disk_capacity_bytes": connector["blocks"] * page,
        "disk_buffer_slots": connector["disk"],
    }


class DiskCopies:
    """Stands where a worker's copy back end is, and has the release's in it."""

    def __init__(self, tier: str, worker: int, transfers: Transfers, handler, slots: int) -> None:
        self._tier, self._worker, self._transfers = tier, worker, transfers
        self._disk = Disk()
        self._codes = itertools.count(1)
        self._block_of: dict[int, int] = {}
        """The block of the device that a code was put down for."""
        self._slot_of: dict[int, int] = {}
        """The slot of the disk that a code was written to."""
        handler.load_stream, handler.store_stream = streams = _Stream(self), _Stream(self)
        handler.num_cpu_blocks, handler.disk_capacity_bytes = slots, slots * _BLOCK
        self._loads, self._stores = streams
        self._stand_in()
        layers = {name: torch.empty((1, _BLOCK // len(_LAYERS)), dtype=torch.int8, device="meta") for name in _LAYERS}
        handler._init_disk_mode(layers, _BLOCK, SimpleNamespace(index=worker))
        self._backend = handler._backend

    def launch_copy(self, src_blocks, dst_blocks, is_store, event_idx, events_list, **wait) -> None:
        """Submit a copy: it goes into the queue of its thread."""
        self._stand_in()
        self._backend.launch_copy(src_blocks, dst_blocks, is_store, event_idx, events_list, **wait)
        stream, kind = (self._stores, "store") if is_store else (self._loads, "load")
        work = _Work(event_idx, is_store, [*zip(src_blocks, dst_blocks, strict=True)])
        stream.works.append(work)
        work.part = self._transfers.submit(
            self._tier, kind, self._worker, event_idx, self._pairs(work, work.planned), ended=partial(self._ended, work)
        )

    def wait(self, work: "_Work") -> None:
        """End a copy, as who asks for its event waits for it."""
        self._transfers.end(work.part)

    def copy(self, sources: list[int], destinations: list[int], params) -> None:
        """Give copies to the device: from its memory to a buffer, or back."""
        stream = params.stream
        for a, b in zip(sources, destinations, strict=True):
            move = self._put_down if stream.work.is_store else self._take_up
            stream.give(partial(move, stream.work, a, b, params.buffers))

    def _put_down(self, _work: "_Work", block: int, slot: int, buffers: list) -> None:
        code = next(self._codes)
        self._block_of[code] = block
        for buffer in buffers:
            buffer[slot] = code

    def _take_up(self, work: "_Work", slot: int, block: int, buffers: list) -> None:
        codes = {int(code) for buffer in buffers for code in np.unique(buffer[slot])}
        place = self._slot_of.get(codes.pop()) if len(codes) == 1 else None
        if place is not None:
            work.brought.append((place, block))

    def _ended(self, work: "_Work", failed: bool) -> list | None:
        """A copy ends, or is to fail; what it brought, where that is not what was told."""
        stream = self._stores if work.is_store else self._loads
        if failed:
            count = len(work.planned)
            self._disk.go_bad(work.number % count, work.number // count % 2)
        if work in stream.works:
            self._work_off(stream)
        self._disk.go_well()
        if stream.is_behind:
            # The thread does not wait for the device: it may have gone on to the next copy.
            self._work_off(stream)
        stream.reach(work.last)
        is_as_told = not failed and {*work.brought} == {*work.planned}
        return None if is_as_told else self._pairs(work, work.brought)

    def _work_off(self, stream: "_Stream") -> None:
        """The thread of a stream does what is next in its queue, unless there is nothing, or no thread any more."""
        if stream.is_dead or not stream.works:
            return
        stream.work = work = stream.works.popleft()
        self._stand_in()
        try:
            stream.thread.go_on()
        except OSError:
            stream.is_dead = True
        stream.work, work.last = None, stream.given
        if work.is_store:
            self._look(work)

    def _look(self, work: "_Work") -> None:
        """See which slots of the disk have what they had not before."""
        (data,) = self._disk.files.values()
        for slot, codes in enumerate(np.frombuffer(data, np.int64).reshape(-1, _BLOCK // 8)):
            code = int(codes[0])
            if code and code not in self._slot_of and (codes == code).all():
                self._slot_of[code] = slot
                work.brought.append((self._block_of[code], slot))

    def _pairs(self, work: "_Work", copied: list[tuple[int, int]]) -> list:
        here, there = ("device", self._tier) if work.is_store else (self._tier, "device")
        return [[here, a, there, b] for a, b in copied]

    def _stand_in(self) -> None:
        """Let the release's module find our disk, device and threads."""
        module.os = self._disk
        module.torch = _TORCH
        module.current_platform = SimpleNamespace(set_device=lambda _device: None)
        module.pin_tensor = lambda _tensor: None
        module.build_params, module.copy_blocks = _params, self.copy
        module.threading, module.queue = SimpleNamespace(Thread=_Thread), SimpleNamespace(SimpleQueue=_Queue)


class _Work:
    """What one copy is to do, and has done."""

    def __init__(self, number: int, is_store: bool, planned: list[tuple[int, int]]) -> None:
        self.number, self.is_store, self.planned = number, is_store, planned
        self.part: Part | None = None
        self.last = 0
        """How much the device must have done for it to be over."""
        self.brought: list[tuple[int, int]] = []


class _Stream:
    """A stream of the device: what it is given it does when it must."""

    def __init__(self, copies: DiskCopies) -> None:
        self.copies = copies
        self.thread: _Thread | None = None
        self.works: deque[_Work] = deque()
        """What is in the queue of its thread."""
        self.work: _Work | None = None
        """What the thread is at."""
        self.is_dead = False
        """Whether an error has ended the thread."""
        self.given = self.done = 0
        self._todo: deque = deque()

    @property
    def is_behind(self) -> bool:
        """Whether it has been given more than it has done."""
        return self.given > self.done

    def give(self, what) -> None:
        """Do this behind all else."""
        self.given += 1
        self._todo.append(what)

    def reach(self, place: int) -> None:
        """Do the first so many things."""
        while self.done < place:
            self.done += 1
            self._todo.popleft()()

    def wait_event(self, _event) -> None:
        """Wait for what is computed: a copy is told as one that does, or does not, when it is submitted."""


class _Event:
    """A device event, recorded within a copy or behind one."""

    def record(self, stream: _Stream) -> None:
        """Stand behind what the stream was given so far."""
        self._stream, self._work, self._at = stream, stream.work, stream.given

    def query(self) -> bool:
        """Whether what stands before it is done: the copy, if it was recorded by the thread."""
        return self._stream.done >= self._at and (self._work is None or self._work.part.done)

    def synchronize(self) -> None:
        """Wait for what stands before it. Who is not the stream's thread waits for a whole copy."""
        if self._stream.work is self._work:
            self._stream.reach(self._at)
        else:
            self._stream.copies.wait(self._work)


class _Thread:
    """A thread of the back end: it goes on when it is told to."""

    def __init__(self, target, args: tuple, **_named) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        """Wait for the first copy."""
        _, stream = self._args
        stream.thread = self

    def go_on(self) -> None:
        """Do the next copy."""
        self._target(*self._args)


class _Queue:
    """What a thread is to do; behind each copy it says that there is nothing more, so that the loop comes back."""

    def __init__(self) -> None:
        self._items: deque = deque()
        self._gives = False

    def put(self, item) -> None:
        """Put something behind the others."""
        self._items.append(item)

    def get(self):
        """Return the first, or, each second time, None."""
        self._gives = not self._gives
        return self._items.popleft() if self._gives else None


_TORCH = SimpleNamespace(Event=_Event, zeros=torch.zeros, int8=torch.int8)


def _params(sources: dict, destinations: dict, stream: _Stream, **_order):
    """Return what a copy needs: the buffers, as numbers; of the device's memory there is nothing."""
    tensors = [*sources.values(), *destinations.values()]
    buffers = [tensor.numpy().view(np.int64) for tensor in tensors if tensor.device.type != "meta"]
    return SimpleNamespace(stream=stream, buffers=buffers)

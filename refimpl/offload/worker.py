"""The worker's side of asynchronous offload: it copies its own part of every block, and reports (O7).

Three ways of copying have one interface (``transfers.Worker``). ``OffloadWorker`` copies by itself: in a thread where
both tiers are in CPU memory, on two streams of its own where the device is a GPU. ``SteppedWorker`` copies when it is
told, slot by slot, for tests that decide every order.
"""

import threading
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue
from random import Random
from typing import Any, Protocol

import torch
from torch import Tensor

from ...kernels.copy import copy_blocks
from ..errors import RefusedError
from .transfers import Load, Message, Store, WorkerReport


class _Copier(Protocol):
    """What makes copies, in the background."""

    def submit(self, messages: list[Message]) -> None:
        """Begin the copies of these messages."""

    def ended(self) -> list[tuple[int, bool]]:
        """Return the transfers that ended since the last call, each with whether it went well."""

    def close(self) -> None:
        """End what is in progress, and all activity."""


class OffloadWorker:
    """Copies in the background: several transfers may be in progress, and end in any order."""

    __slots__ = ("_copier", "index")

    def __init__(self, index: int, device: Tensor, host: Tensor) -> None:
        """Copy between this worker's parts of the tiers.

        Args:
            index: its number, from 0.
            device: its part of the device's blocks, ``[layers, 2, blocks, block_tokens, heads, head_dim]``; usually a
                slice of the layers of a ``Payload.data``.
            host: its part of the host's blocks, equal but for the number of blocks; pinned where the device is a GPU.
        """
        _check_parts(device, host)
        if device.is_cuda and not host.is_pinned():
            raise RefusedError("a GPU copies to and from pinned host memory only")
        self.index = index
        self._copier: _Copier = _StreamCopier(device, host) if device.is_cuda else _ThreadCopier(device, host)

    def submit(self, messages: list[Message]) -> None:
        """Begin these transfers and return at once. What was written before this call is what the copies read."""
        self._copier.submit(messages)

    def poll(self) -> list[WorkerReport]:
        """Return what was completed or failed since the last call. Returns at once."""
        return [WorkerReport(self.index, transfer, ok) for transfer, ok in self._copier.ended()]

    def close(self) -> None:
        """Wait for the transfers in progress and stop. They can still be polled; nothing may be submitted."""
        self._copier.close()


class SteppedWorker:
    """Copies one slot at a time, when told, and ends a transfer when told: every order is the caller's to choose."""

    __slots__ = ("_device", "_host", "_jobs", "_reports", "_slots", "index")

    def __init__(self, index: int, device: Tensor, host: Tensor, *, slots: Sequence[int] | None = None) -> None:
        """Copy between this worker's parts of the tiers; arguments as for ``OffloadWorker``.

        With ``slots``, its part is these slots of each block only; others copy the rest.
        """
        _check_parts(device, host)
        self.index = index
        self._slots = tuple(range(device.shape[3]) if slots is None else slots)
        self._device = device
        self._host = host
        self._jobs: dict[int, tuple[Message, dict[tuple[int, int], None]]] = {}
        self._reports: list[WorkerReport] = []

    @property
    def jobs(self) -> tuple[int, ...]:
        """The transfers that were submitted and neither finished nor failed, in order of submission."""
        return tuple(self._jobs)

    def submit(self, messages: list[Message]) -> None:
        """Take these transfers. Nothing is copied yet."""
        for message in messages:
            left = {(index, slot): None for index in range(len(message.pairs)) for slot in self._slots}
            self._jobs[message.id] = (message, left)

    def uncopied(self, transfer: int) -> tuple[tuple[int, int], ...]:
        """Return what is still to be copied of a transfer: (index of the pair, slot)."""
        return tuple(self._job(transfer)[1])

    def copy(self, transfer: int, pair_index: int, slot: int) -> None:
        """Copy one slot of one pair, as it is now. Refused when it was copied, or is no part of the transfer."""
        message, left = self._job(transfer)
        if (pair_index, slot) not in left:
            raise RefusedError(f"slot {slot} of pair {pair_index} of transfer {transfer} is not to be copied")
        del left[pair_index, slot]
        source, destination = message.pairs[pair_index]
        origin, target = (self._device, self._host) if isinstance(message, Store) else (self._host, self._device)
        target[:, :, destination, slot] = origin[:, :, source, slot].to(target.device)

    def finish(self, transfer: int) -> None:
        """Report a transfer as done. Refused before every slot is copied (O7)."""
        left = self._job(transfer)[1]
        if left:
            raise RefusedError(f"{len(left)} slots of transfer {transfer} are not copied")
        self._report(transfer, True)

    def fail(self, transfer: int) -> None:
        """Report a transfer as failed, however much of it was copied. No more of it will be."""
        self._report(transfer, False)

    def poll(self) -> list[WorkerReport]:
        """Return what was finished or failed since the last call."""
        reports, self._reports = self._reports, []
        return reports

    def close(self) -> None:
        """Drop what is in progress: nothing of it will be copied or reported."""
        self._jobs.clear()

    def _job(self, transfer: int) -> tuple[Message, dict[tuple[int, int], None]]:
        """Return a transfer that must be in progress."""
        if transfer not in self._jobs:
            raise RefusedError(f"transfer {transfer} is not in progress")
        return self._jobs[transfer]

    def _report(self, transfer: int, ok: bool) -> None:
        """End a transfer."""
        self._job(transfer)
        del self._jobs[transfer]
        self._reports.append(WorkerReport(self.index, transfer, ok))


def step_at_random(workers: Sequence[SteppedWorker], rng: Random, *, failures: float = 0.0) -> None:
    """Let each worker copy some slots of what it has in progress, and end some of what is copied.

    Args:
        workers: the workers.
        rng: decides everything.
        failures: how likely it is, each time, that a transfer fails at one worker.
    """
    for worker in workers:
        for transfer in worker.jobs:
            left = worker.uncopied(transfer)
            for pair_index, slot in rng.sample(left, rng.randint(0, len(left))):
                worker.copy(transfer, pair_index, slot)
            if rng.random() < failures:
                worker.fail(transfer)
            elif not worker.uncopied(transfer):
                worker.finish(transfer)


class _ThreadCopier:
    """One thread that copies transfer after transfer, for tiers in CPU memory."""

    def __init__(self, device: Tensor, host: Tensor) -> None:
        """Start the thread."""
        self._device = device
        self._host = host
        self._messages: SimpleQueue[Message | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[int, bool]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="offload", daemon=True)
        self._is_closed = False
        self._thread.start()

    def submit(self, messages: list[Message]) -> None:
        """Give the messages to the thread. Writes of this thread are done when they return, so before these copies."""
        if self._is_closed:
            raise RefusedError("the worker is closed")
        for message in messages:
            self._messages.put(message)

    def ended(self) -> list[tuple[int, bool]]:
        """Return what the thread has done. Only this side takes, so what is counted is there."""
        return [self._ended.get() for _ in range(self._ended.qsize())]

    def close(self) -> None:
        """Let the thread do what it was given, and end."""
        if not self._is_closed:
            self._is_closed = True
            self._messages.put(None)
            self._thread.join()

    def _work(self) -> None:
        """Copy what comes, until told to end."""
        while (message := self._messages.get()) is not None:
            try:
                _copy(message, self._device, self._host)
            except Exception:  # Whatever went wrong, the scheduler must hear of it: the blocks are held until then.
                self._ended.put((message.id, False))
            else:
                self._ended.put((message.id, True))


class _StreamCopier:
    """Two streams of the lowest priority, so that copies give way to the model: one for stores and one for loads.

    Both tensors are kept here, and what else a copy uses is allocated on its own stream: nothing is freed under it.
    """

    def __init__(self, device: Tensor, host: Tensor) -> None:
        """Make the streams."""
        self._device = device
        self._host = host
        self._streams = {kind: _new_stream(device) for kind in (Store, Load)}
        self._queued: dict[type[Message], deque[tuple[int, Any, bool]]] = {Store: deque(), Load: deque()}
        self._is_closed = False

    def submit(self, messages: list[Message]) -> None:
        """Queue the copies behind all that was queued on the current stream, the model's, until now (P6).

        That holds for loads as well: a kernel that was queued for the last holder of a block may still read it.
        """
        if self._is_closed:
            raise RefusedError("the worker is closed")
        if not messages:
            return
        computed = _new_event()
        computed.record(torch.cuda.current_stream(self._device.device))
        for stream in self._streams.values():
            stream.wait_event(computed)
        for message in messages:
            self._queue(message)

    def ended(self) -> list[tuple[int, bool]]:
        """Return the transfers whose event has come. On each stream they come in order; nothing is waited for."""
        answer: list[tuple[int, bool]] = []
        for queued in self._queued.values():
            while queued:
                transfer, event, ok = queued[0]
                try:
                    if not event.query():
                        break
                except RuntimeError:  # A kernel failed, and with it all that is queued.
                    ok = False
                answer.append((transfer, ok))
                queued.popleft()
        return answer

    def close(self) -> None:
        """Wait for the copies that are queued."""
        self._is_closed = True
        for stream in self._streams.values():
            stream.synchronize()

    def _queue(self, message: Message) -> None:
        """Queue one transfer on its stream, and an event behind it.

        If that fails, part of it may be queued: so it is reported when the stream has come past it, as any other.
        """
        stream = self._streams[type(message)]
        ok = True
        with torch.cuda.stream(stream):
            try:
                _copy(message, self._device, self._host)
            except Exception:
                ok = False
        copied = _new_event()
        copied.record(stream)
        self._queued[type(message)].append((message.id, copied, ok))


def _new_stream(device: Tensor) -> torch.cuda.Stream:
    """Make a stream on the device of a tensor. Priority 0 is the lowest that CUDA has."""
    make: Any = torch.cuda.Stream  # torch gives its streams and events no types.
    stream: torch.cuda.Stream = make(device.device, priority=0)
    return stream


def _new_event() -> Any:
    """Make an event, which tells whether a stream has come to it."""
    make: Any = torch.cuda.Event
    return make()


def split_layers(data: Tensor, workers: int) -> list[Tensor]:
    """Return each worker's part of every block of a tier: its layers, as views of ``data``, as even as they go."""
    if not 1 <= workers <= len(data):
        raise RefusedError(f"{len(data)} layers cannot be split among {workers} workers")
    return list(data.tensor_split(workers))


def make_workers(device: Tensor, host: Tensor, workers: int) -> list[OffloadWorker]:
    """Return workers that copy in the background, each with its part of the layers of both tiers."""
    parts = zip(split_layers(device, workers), split_layers(host, workers), strict=True)
    return [OffloadWorker(index, here, there) for index, (here, there) in enumerate(parts)]


def _copy(message: Message, device: Tensor, host: Tensor) -> None:
    """Copy the blocks of one transfer in one batch."""
    if isinstance(message, Store):
        copy_blocks(device, host, message.pairs)
    else:
        copy_blocks(host, device, message.pairs)


def _check_parts(device: Tensor, host: Tensor) -> None:
    """Refuse two tensors between which no block can be copied."""
    if device.ndim != 6 or host.ndim != 6 or device[:, :, 0].shape != host[:, :, 0].shape or device.dtype != host.dtype:
        raise RefusedError(
            f"blocks of the device, {tuple(device.shape)} {device.dtype}, do not fit those of the host, "
            f"{tuple(host.shape)} {host.dtype}"
        )

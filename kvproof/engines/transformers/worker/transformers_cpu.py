"""What of the release wants an accelerator, replaced by what does nothing: on a CPU all is done in the order of calls,
which is an order that streams and events allow."""

import contextlib
import functools

import torch
from transformers.generation.continuous_batching import (
    cache,
    continuous_api,
    input_outputs,
    model_runner,
    offloading_manager,
)

__all__ = ["without_accelerator"]


class _Null:
    """A stream, or an event: nothing has to be waited for."""

    def __init__(self, *_args, **_kwargs) -> None:
        pass

    def record_event(self, _event) -> None:
        """Do nothing."""

    wait_event = record_event

    def synchronize(self) -> None:
        """Do nothing."""


class _Torch:
    """Torch, with these names replaced."""

    def __init__(self, **replaced) -> None:
        self.__dict__.update(replaced)

    def __getattr__(self, name: str):
        return getattr(torch, name)


def _unpinned(*sizes, pin_memory: bool = False, **options) -> torch.Tensor:
    """Make a tensor as `torch.empty` does: no memory is pinned where nothing is transferred."""
    del pin_memory
    return torch.empty(*sizes, **options)


@functools.cache
def without_accelerator() -> None:
    """Let the release run on a CPU; once is enough."""
    # How much memory there is does not change, and to ask takes longer than a case.
    cache.get_device_and_memory_breakdown = functools.cache(cache.get_device_and_memory_breakdown)
    for module in (continuous_api, input_outputs, model_runner, offloading_manager):
        module.stream_context = lambda _stream: contextlib.nullcontext()
    input_outputs.create_device_stream = lambda _device: _Null()
    input_outputs.torch = _Torch(Event=_Null)
    offloading_manager.torch = _Torch(empty=_unpinned)
    input_outputs.ContinuousBatchingAsyncIOs._supported_device_types = ("cpu",)
    # It collects all garbage: a second and more, for each case.
    continuous_api.ContinuousBatchProcessor.__del__ = lambda _self: None

"""The heap while a checker runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["heap_at_rest"]


@contextmanager
def heap_at_rest() -> Iterator[None]:
    """Keep the garbage collector from walking, over and over, all that was made before: modules, mostly torch's."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()

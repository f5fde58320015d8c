"""The heap while a checker runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["heap_at_rest", "seldom_searched"]

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 50


def seldom_searched() -> None:
    """Look for unreachable cycles more seldom than Python does by itself.

    Terms, formulas and states are made by the million, live long, and are in no cycles.
    """
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


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

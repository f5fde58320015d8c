"""The heap while a checker runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["heap_at_rest", "rest_for_good", "seldom_searched"]

_YOUNG, _MIDDLE, _OLD = 200_000, 20, 50

_resting = [False]
"""Whether the heap is at rest. To ask Python how many objects it leaves alone, it would count them, one by one."""


def seldom_searched() -> None:
    """Look for unreachable cycles more seldom than Python does by itself.

    Terms, formulas and states are made by the million, live long, and are in no cycles.
    """
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def rest_for_good() -> None:
    """Keep the garbage collector for good from what is there now."""
    gc.collect()
    gc.freeze()
    _resting[0] = True


@contextmanager
def heap_at_rest() -> Iterator[None]:
    """Keep the garbage collector from walking, over and over, all that was made before: modules, mostly torch's."""
    if _resting[0]:
        yield
        return
    _resting[0] = True
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        _resting[0] = False

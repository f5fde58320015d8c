"""Which release of SGLang is installed, known before any of it is imported."""

import importlib.metadata

from drift import released

__all__ = ["BEFORE_CHECKPOINTS", "SERVED", "STATES_BELOW", "WINDOWS_BELOW", "version"]


def version() -> str:
    """Return the installed release, without its local part."""
    return importlib.metadata.version("sglang").partition("+")[0]


BEFORE_CHECKPOINTS = released(version()) < (0, 5, 22)
"""A request does not check in by itself (`checkpoint`): the tree caches it."""

SERVED = released(version()) >= (0, 5, 19)
"""Its own scheduler is driven, and its host tier."""

STATES_BELOW = released(version()) >= (0, 5, 21)
"""Its host tier is driven with states: none before was tried."""

WINDOWS_BELOW = released(version()) >= (0, 5, 20)
"""Its host tier is driven with windows: before, a lock leaves out what has no window when it is taken, though that may
come back under it, and the judge takes a lock of a window for one of all of it."""

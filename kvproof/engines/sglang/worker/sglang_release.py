"""Which release of SGLang is installed, known before any of it is imported."""

import importlib.metadata

from drift import released

__all__ = ["BEFORE_CHECKPOINTS", "SERVED", "version"]


def version() -> str:
    """Return the installed release, without its local part."""
    return importlib.metadata.version("sglang").partition("+")[0]


BEFORE_CHECKPOINTS = released(version()) < (0, 5, 22)
"""A request does not check in by itself (`checkpoint`): the tree caches it."""

SERVED = released(version()) >= (0, 5, 19)
"""Its own scheduler is driven."""

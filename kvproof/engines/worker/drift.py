"""What an adapter knows of an engine, held against the engine: releases change."""

import inspect

__all__ = ["drifted"]


def drifted(parameters, names=()):
    """Return what is not as an adapter knows it, in a few words; None where all is.

    Args:
        parameters: classes, a method of each, and the names of its parameters.
        names: places, and attributes that must be there.
    """
    for owner, name, expected in parameters:
        found = tuple(inspect.signature(getattr(owner, name)).parameters)
        if found != expected:
            return f"{owner.__name__}.{name} takes {', '.join(found)}, not {', '.join(expected)}"
    missing = [name for place, wanted in names for name in wanted if name not in place]
    return f"there is no {missing[0]}" if missing else None

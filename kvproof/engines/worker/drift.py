"""What an adapter knows of an engine, held against the engine: releases change."""

import inspect
import re

__all__ = ["drifted", "released"]


def released(version):
    """Return the numbers of a version, of which a candidate or a build under way has those of the release to come."""
    return tuple(int(number) for number in re.match(r"[\d.]*\d", version)[0].split("."))


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

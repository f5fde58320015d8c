"""From the text of a machine to its class."""

from __future__ import annotations

import itertools
import linecache
from typing import Any, cast

from kvproof.machine import Machine

__all__ = ["load"]

_numbers = itertools.count(1)


def load(source: str, main: str) -> type[Machine]:
    """Run the text; the language finds its lines, as it does those of a file.

    Raises:
        MachineError: the language refuses the text.
    """
    name = f"random_machine_{next(_numbers)}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": name.removesuffix(".py")}
    exec(compile(source, name, "exec"), space)  # our own text
    return cast("type[Machine]", space[main])

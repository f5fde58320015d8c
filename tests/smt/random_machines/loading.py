"""From the text of a machine to its class."""

from __future__ import annotations

import itertools
import linecache
import traceback
from typing import Any, cast

from kvproof.machine import Machine

__all__ = ["is_of_a_text", "load"]

_numbers = itertools.count(1)
_NAME = "random_machine_"


def load(source: str, main: str) -> type[Machine]:
    """Run the text; the language finds its lines, as it does those of a file.

    Raises:
        MachineError: the language refuses the text.
    """
    name = f"{_NAME}{next(_numbers)}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": name.removesuffix(".py")}
    exec(compile(source, name, "exec"), space)  # our own text
    return cast("type[Machine]", space[main])


def is_of_a_text(error: Exception) -> bool:
    """Whether an error is raised by a line of a text, and by nothing that it calls."""
    return traceback.extract_tb(error.__traceback__)[-1].filename.startswith(_NAME)

"""``python -m kvproof.testing MODULE:CLASS``: a `BlockManager` as a driver, which speaks the worker protocol.

It is what ``kvproof fuzz python:MODULE:CLASS`` starts: a process of its own, so that a crash ends nothing else.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..engines.worker.serving import serve
from ..errors import UsageError
from .manager import BlockManager
from .session import Served
from .tree import PrefixTree

_LIMITS = {"operation": 5.0}


def main() -> None:
    """Answer messages until standard input ends."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        serve(lambda: _adapter(sys.argv[1]), _LIMITS)
    except UsageError as error:
        sys.exit(str(error))


def _adapter(place: str) -> tuple[Served, dict[str, Any]]:
    module, _, name = place.rpartition(":")
    found = getattr(_imported(module), name, None)
    if isinstance(found, type) and issubclass(found, PrefixTree):
        raise UsageError(
            f"{name} is a PrefixTree; pytest fuzzes it, or assert_fuzzed({name}), and python: block managers"
        )
    if not isinstance(found, type) or not issubclass(found, BlockManager):
        raise UsageError(f"{module} has no {name} that extends kvproof.testing.BlockManager; name a class that does")
    adapter = Served(found)
    return adapter, adapter.about


def _imported(module: str) -> ModuleType:
    """The module of that name, or in that file.

    Raises:
        UsageError: there is none.
    """
    path = Path(module)
    try:
        if path.suffix != ".py":
            return importlib.import_module(module)
        sys.path.insert(0, str(path.parent.absolute()))
        return importlib.import_module(path.stem)
    except ModuleNotFoundError as error:
        raise UsageError(f"{module} cannot be imported ({error}); name a module, or a file, that can be") from error


if __name__ == "__main__":
    main()

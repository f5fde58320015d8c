"""Modules of a release that is not there, with what a driver of the kit imports of them."""

import sys
import types

__all__ = ["stand_in"]


def stand_in(path: str, **names: object) -> None:
    """A module of the release has these names; it, and those above it, are made where they are not there yet."""
    whole, *parts = path.split(".")
    module = sys.modules.setdefault(whole, types.ModuleType(whole))
    for part in parts:
        whole += "." + part
        below = sys.modules.setdefault(whole, types.ModuleType(whole))
        setattr(module, part, below)
        module = below
    vars(module).update(names)

"""Copies that begin in a step (effect ``copy``), for oracles that ask which places they read and write."""

from collections.abc import Sequence
from typing import Any

from ..record import Effect

__all__ = ["begun_by"]


def begun_by(effect: Effect) -> Sequence[Sequence[Any]]:
    """Tier and block that are read, tier and block that are written, of each pair of a copy that begins with an effect;
    none of another effect, or where what is copied is not said."""
    is_begin = effect[0] == "copy" and effect[2] == "begin" and len(effect) > 3
    return effect[3] or () if is_begin else ()

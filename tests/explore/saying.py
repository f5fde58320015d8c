"""Machines that say less than they do."""

from __future__ import annotations

import copy
from collections.abc import Callable

from kvproof.machine import Machine, Model, Property

__all__ = ["saying", "without_corollaries"]


def saying(machine: type[Machine] | Model, kept: Callable[[Property], bool]) -> Model:
    """The machine with these of its properties alone."""
    model = copy.copy(machine if isinstance(machine, Model) else Model.of(machine))
    model.properties = {name: prop for name, prop in model.properties.items() if kept(prop)}
    return model


def without_corollaries(machine: type[Machine] | Model) -> Model:
    """The machine without its corollaries: a guard that is wrong breaks one of them before it has done any harm."""
    return saying(machine, lambda prop: not prop.derived)

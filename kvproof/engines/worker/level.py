"""What every level of every engine is to the worker: a system made from a setup, driven by operations by name."""

from abc import ABC, abstractmethod

SKIPPED = object()
"""What an operation returns when there was nothing to do it to."""


class Refused(Exception):
    """The engine does not take this setup; the text says why. Raised while a level is made, never later."""


class Later:
    """A level that is imported when it is first used: that costs seconds. Called with a setup, it makes a system."""

    def __init__(self, module: str, kind: str) -> None:
        self._where = module, kind

    def load(self):
        """Import the level, and return its class."""
        module, kind = self._where
        return getattr(__import__(module), kind)

    def __call__(self, setup: dict):
        """Make a system of a setup."""
        return self.load()(setup)


class Level(ABC):
    """One system. A subclass makes it in ``__init__``, sets `world`, and has a method ``op_NAME`` per operation.

    Such a method takes the arguments as one dict, tells what happens by `tell`, and returns plain data or `SKIPPED`. An
    exception of the engine is let through: it is a finding.
    """

    SKIPPED = SKIPPED
    world: dict

    def __init__(self) -> None:
        self._effects: list[list] = []

    def do(self, op: str, args: dict):
        """Do an operation; ``args`` may be changed in place, so that it says what was picked."""
        return getattr(self, "op_" + op)(args)

    def tell(self, *effect) -> None:
        """Note an effect of the operation under way (`docs/protocol.md`). Lists in it must not change any more."""
        self._effects.append(list(effect))

    def take_effects(self) -> list[list]:
        """Return the effects noted since the last call."""
        effects, self._effects = self._effects, []
        return effects

    @abstractmethod
    def state(self) -> dict:
        """Return the state, read from the engine's own objects."""

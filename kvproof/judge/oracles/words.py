"""What a driver says: effects and states as the protocol has them, before anything can be judged by them."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..shapes import Reader
from ..violation import Violation

__all__ = ["GARBAGE", "WordsOracle", "garbage"]

GARBAGE = "garbage"
"""What notices words that are none."""


class WordsOracle:
    """Judges the words of drivers that the kit does not know: a block that there is not must not pass unseen."""

    def __init__(self, world: World) -> None:
        self._reader = Reader(world)

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield what is no effect and no state."""
        for kind, text in self._reader.step(step):
            yield garbage(kind, text)


def garbage(kind: str, text: str) -> Violation:
    """What was told is not what the protocol says, so nothing can be judged by it."""
    return Violation("L2", GARBAGE, text, (GARBAGE, kind))

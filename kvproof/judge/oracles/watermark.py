"""P7 of who keeps blocks back: whoever is let in leaves so many that nobody holds.

What a request that runs takes for its growth is not judged: a watermark may be there just for that.
"""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import TOGETHER, State, Step, World
from ..violation import Violation
from .counting import kept_back

__all__ = ["WatermarkOracle"]

_LETS_IN = ("start", "resume")
_GROWS = ("grow", "step")


class WatermarkOracle:
    """Counts the blocks that are in no table and in no copy, behind an operation that let somebody in."""

    def __init__(self, world: World) -> None:
        self._kept_back = kept_back(world)
        self._device, device = next(iter(world.tiers.items()))
        self._usable = {*range(device.blocks)} - {device.null}
        self._before: set[int] = set()

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield that somebody was let in with what is kept back."""
        if not self._kept_back or step.state is None:
            return
        held = self._held(step.state)
        before, self._before = self._before, held
        free = len(self._usable - held)
        if step.error is None and _lets_in(step) and len(held) > len(before) and free < self._kept_back:
            text = f"{_said(step)} is let in, and {free} blocks are left free; {self._kept_back} are kept back"
            yield Violation("P7", "takes what is kept back", text)

    def _held(self, state: State) -> set[int]:
        of_requests = {block for tables in state.tables.values() for table in tables for block in table}
        return (of_requests | {*state.holds.get(self._device, ())}) & self._usable


def _lets_in(step: Step) -> bool:
    """Whether somebody was let in, and nobody grew: where calls overlap that may have come behind it."""
    if step.op != TOGETHER:
        return step.op in _LETS_IN and step.result is True
    done = {name.partition(" ")[0] for name, answer in step.together.items() if answer is not False}
    return any(_is_let_in(name, answer) for name, answer in step.together.items()) and done.isdisjoint(_GROWS)


def _is_let_in(name: str, answer: object) -> bool:
    return name.startswith(_LETS_IN) and answer is True


def _said(step: Step) -> str:
    """Who was let in."""
    if step.op != TOGETHER:
        return str(step.args.get("request"))
    return next(name.partition(" ")[2] for name, answer in step.together.items() if _is_let_in(name, answer))

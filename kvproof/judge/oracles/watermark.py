"""P7 of who keeps blocks back: whoever is let in leaves so many that nobody holds.

What a request that runs takes for its growth is not judged: a watermark may be there just for that.
"""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import SEVERAL, State, Step, World
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
        r = _let_in(step)
        if step.error is None and r is not None and len(held) > len(before) and free < self._kept_back:
            text = f"{r} is let in, and {free} blocks are left free; {self._kept_back} are kept back"
            yield Violation("P7", "takes what is kept back", text)

    def _held(self, state: State) -> set[int]:
        of_requests = {block for tables in state.tables.values() for table in tables for block in table}
        return (of_requests | {*state.holds.get(self._device, ())}) & self._usable


def _let_in(step: Step) -> str | None:
    """Who was let in, if anybody was and nobody grew: where calls overlap that may have come behind it."""
    if step.op not in SEVERAL:
        return str(step.args.get("request")) if step.op in _LETS_IN and step.result is True else None
    done = step.together
    if any(name.partition(" ")[0] in _GROWS and answer is not False for name, answer in done.items()):
        return None
    admitted = (name for name, answer in done.items() if name.startswith(_LETS_IN) and answer is True)
    return next((name.partition(" ")[2] for name in admitted), None)

"""A text that is read again says what it said before; else it depends on more than the state.

What outlives a text and may hold something is looked at (`lasting.py`), as far as one can look into it. A text that
names something into which nobody can, as what Python's library has, is read several times instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .canonical import content_of
from .mistakes import Line, MachineError
from .model import Action, CountOf, Model, Property

__all__ = ["check_again"]

_TIMES = 3


def check_again(model: Model, read: Callable[[], Model]) -> None:
    """Each further reading gives the same machine.

    Raises:
        MachineError: an action, a property or something that is counted says something else.
    """
    said = {name: (text, line) for name, text, line in _texts(model)}
    for _ in range(_TIMES):
        again = {name: text for name, text, _ in _texts(read())}
        for name, (text, line) in said.items():
            if text != again.get(name):
                raise MachineError(
                    f"{name} says something else each time its text is read, so it depends on more than the state: "
                    "keep that as a part of the state",
                    line,
                )


def _texts(model: Model) -> Iterator[tuple[str, str, Line]]:
    """Whatever the machine says, by name, with the line on which that begins."""
    said: list[CountOf | Action | Property] = [
        *model.counts.values(),
        *model.actions.values(),
        *model.properties.values(),
    ]
    for one in said:
        yield one.name, content_of(one).text, one.line
    for name, first in model.inits.items():
        yield f"the first value of {name}", content_of(*first).text, (model.maps | model.queues)[name].line

"""What becomes of requests whose clients went away (R7)."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_request

__all__ = ["AbortsOracle"]


class AbortsOracle:
    """Watches that an aborted request is not served to its end.

    What is scheduled when the abort comes may run, and may be the end by itself. To be admitted after that, and served
    until nothing is missing, is to have forgotten the abort.
    """

    def __init__(self, _world: World) -> None:
        self._alive: dict[str, None] = {}
        self._aborted: set[str] = set()
        self._again: set[str] = set()

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the aborts that were lost."""
        if step.op == "abort" and not step.skipped:
            self._aborted.add(step.args["request"])
        elif step.op == "abort_all":
            self._aborted |= self._alive.keys()
        for effect in step.effects:
            kind, *rest = effect
            if kind == "request":
                self._alive[rest[0]] = None
            elif kind == "lookup" and rest[0] in self._aborted:
                self._again.add(rest[0])
            elif kind == "end":
                r, how = rest
                self._alive.pop(r, None)
                if r in self._again and how == "finished":
                    text = f"{r} was aborted, was admitted after that and served to its end"
                    yield Violation("R7", "an abort that is lost", text, (), (of_request(r),))

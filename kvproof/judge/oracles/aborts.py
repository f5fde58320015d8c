"""How requests end: who was aborted is not served, and who was served is not dropped (R7, L1)."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_request

__all__ = ["AbortsOracle"]


class AbortsOracle:
    """Watches what becomes of requests that clients abort, and of those that they do not.

    What is scheduled when an abort comes may run, and may be the end by itself. To be admitted after that, and served
    until nothing is missing, is to have forgotten the abort. A request that was refused when it came (the result of its
    `add` is false) may end as aborted, and so may one that never ran; one that ran, ends with all its tokens.
    """

    def __init__(self, _world: World) -> None:
        self._alive: dict[str, None] = {}
        self._aborted: set[str] = set()
        self._again: set[str] = set()
        """Aborted, and admitted after that."""
        self._ran: set[str] = set()

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the aborts that were lost, and the requests that were dropped."""
        if step.op == "abort" and not step.skipped:
            self._aborted.add(step.args["request"])
        elif step.op == "abort_all":
            self._aborted |= self._alive.keys()
        for effect in step.effects:
            if effect[0] == "request":
                self._alive[effect[1]] = None
            elif effect[0] == "found" and effect[1] in self._aborted:
                self._again.add(effect[1])
            elif effect[0] == "compute":
                self._ran.add(effect[1])
            elif effect[0] == "end":
                yield from self._ended(effect[1], effect[2])
        if step.op == "add" and step.result is False:
            self._aborted.add(step.args["request"])

    def _ended(self, r: str, how: str) -> Iterator[Violation]:
        self._alive.pop(r, None)
        if how == "finished" and r in self._again:
            text = f"{r} was aborted, was admitted after that and served to its end"
            yield Violation("R7", "an abort that is lost", text, (), (of_request(r),))
        if how == "aborted" and r in self._ran and r not in self._aborted:
            text = f"{r} was served, and is dropped before its end though nobody aborted it"
            yield Violation("L1", "a request that is dropped", text, (), (of_request(r),))

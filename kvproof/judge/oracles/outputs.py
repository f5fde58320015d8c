"""What clients are told of an answer beside its tokens (P15): how much of the prompt was found, how much was made."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_request

__all__ = ["OutputsOracle"]


class OutputsOracle:
    """Compares the numbers of an `output` with what happened: clients pay by them."""

    def __init__(self, _world: World) -> None:
        self._found: dict[str, set[int]] = {}
        """How many tokens lookups of a request found before anything of it was computed, here and elsewhere: one that
        waits may ask more than once. And where it began to be computed: of what was found elsewhere some may not come.
        What it finds of itself later does not count."""
        self._begun: set[str] = set()

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield which numbers are wrong."""
        for effect in step.effects:
            kind = effect[0]
            if kind == "request":
                self._found[effect[1]] = set()
                self._begun.discard(effect[1])
            elif kind == "lookup" and effect[1] not in self._begun:
                self._found[effect[1]].add(effect[2] + effect[3])
            elif kind == "found" and not self._found[effect[1]]:
                self._found[effect[1]].add(effect[3])
            elif kind == "compute" and effect[1] not in self._begun:
                self._begun.add(effect[1])
                self._found[effect[1]].add(effect[2])
            elif kind == "output":
                yield from self._told(*effect[1:])

    def _told(
        self,
        r: str,
        _prompt: int,
        _most: int,
        _stop: int | None,
        _given: list[int],
        made: list[int],
        cached: int | None = None,
        count: int | None = None,
    ) -> Iterator[Violation]:
        found = self._found[r] or {0}
        if cached is not None and cached not in found:
            said = " or ".join(map(str, sorted(found)))
            text = f"the client of {r} is told that {cached} of its tokens were cached, and it found {said}"
            yield Violation("P15", "what a client is told was found", text, about=(of_request(r),))
        if count is not None and count != len(made):
            text = f"the client of {r} is told that {count} tokens were made, and gets {len(made)}"
            yield Violation("P15", "what a client is told was made", text, about=(of_request(r),))

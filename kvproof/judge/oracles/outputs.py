"""What clients are told of an answer beside its tokens (P15): how much of the prompt was found, how much was made."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_request

__all__ = ["OutputsOracle"]


class OutputsOracle:
    """Compares the numbers of an `output` with what happened: clients pay by them."""

    def __init__(self, _world: World) -> None:
        self._found: dict[str, int] = {}
        """How many tokens a request found when it was admitted first: what it finds of itself later does not count."""

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield which numbers are wrong."""
        for effect in step.effects:
            if effect[0] == "request":
                self._found.pop(effect[1], None)
            elif effect[0] == "found":
                self._found.setdefault(effect[1], effect[3])
            elif effect[0] == "output":
                _, r, _, _, _, _, made, cached, count = [*effect, None, None][:9]
                found = self._found.get(r, 0)
                if cached is not None and cached != found:
                    text = f"the client of {r} is told that {cached} of its tokens were cached, and it found {found}"
                    yield Violation("P15", "what a client is told was found", text, about=(of_request(r),))
                if count is not None and count != len(made):
                    text = f"the client of {r} is told that {count} tokens were made, and gets {len(made)}"
                    yield Violation("P15", "what a client is told was made", text, about=(of_request(r),))

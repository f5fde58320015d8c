"""How many tokens requests have, as a step's effects go on: the ghost knows only what they have behind it."""

from ..record import Effect

__all__ = ["Lengths"]


class Lengths(dict[str, int]):
    """The tokens of each request that has arrived."""

    def follow(self, effect: Effect) -> None:
        """Let an effect happen."""
        kind = effect[0]
        if kind == "request":
            self[effect[1]] = len(effect[2]["tokens"])
        elif kind == "append":
            self[effect[1]] += len(effect[2])
        elif kind == "cut":
            self[effect[1]] = effect[2]

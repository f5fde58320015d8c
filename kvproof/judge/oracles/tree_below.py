"""O9: what a prefix tree has on its second tier goes on to the tier below that, with windows and states."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Violation, of_key
from .tree_parts import words_of

__all__ = ["Below", "TreeBelowOracle", "is_done"]

Entry = tuple[int, int]
"""A hash key and a group."""


class Below:
    """The two tiers that a world names in ``notes["below"]``, and whether the lower one is there."""

    def __init__(self, upper: str, lower: str) -> None:
        self.upper, self.lower = upper, lower
        self._is_away = False

    @classmethod
    def of(cls, world: World) -> "Below | None":
        """What a world says of them, if it does."""
        named = world.notes.get("below")
        return cls(*named) if named else None

    def spoils(self, step: Step) -> bool:
        """Take in a step; return whether something goes bad (``bad``), or it is one between ``detach`` and
        ``attach`` that is not refused: then what goes to the lower tier, or comes from it, may be lost."""
        was_away = self._is_away
        self._is_away = step.op == "detach" or (was_away and (step.op != "attach" or step.result is False))
        return was_away or self._is_away or bool(step.args.get("bad"))

    def entries(self, state: State) -> tuple[set[Entry], set[Entry]]:
        """What the maps of both have."""
        upper, lower = (_entries(state, tier) for tier in (self.upper, self.lower))
        return upper, lower


class TreeBelowOracle:
    """Compares the maps of both tiers where nothing is under way any more.

    What was on the upper one while something went bad or the lower one was away need not have come below: nobody
    stores that again. Nor does what the lower one had and lost: the upper one may be reading it.
    """

    def __init__(self, world: World) -> None:
        self._groups = world.groups
        self._below = Below.of(world)
        self._excused: set[Entry] = set()
        self._had: tuple[set[Entry], set[Entry]] = set(), set()
        """What both had behind the last step that told it."""

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the first entry that has not come below when all is done."""
        if step.state is None or self._below is None:
            return
        upper, lower = self._below.entries(step.state)
        (before, had), self._had = self._had, (upper, lower)
        self._excused |= had - lower
        if self._below.spoils(step):
            self._excused |= before | upper
        if step.op == "drain" and is_done(step):
            yield from self._missing(upper - lower - self._excused, self._below)

    def _missing(self, entries: set[Entry], below: Below) -> Iterator[Violation]:
        for key, g in sorted(entries)[:1]:
            what = "tokens" if g == 0 else words_of(self._groups[g])
            text = f"all is done, and the {what} of key {key} are on {below.upper} and not on {below.lower}"
            about = ("full" if g == 0 else self._groups[g].kind,)
            yield Violation("O9", "not handed on to the tier below", text, about, (of_key(key),))


def is_done(step: Step) -> bool:
    """Whether a drain came to its end, with nothing left."""
    result = step.result
    return step.error is None and isinstance(result, dict) and not result.get("left") and not result.get("pending")


def _entries(state: State, tier: str) -> set[Entry]:
    pool = state.pools.get(tier)
    return {(key, g) for key, g, blocks in (pool.cached if pool is not None else None) or () if blocks}

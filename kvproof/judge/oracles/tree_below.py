"""O9: what a prefix tree has on its second tier goes on to the tier below that, with windows and states."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Violation, of_key
from .tree_parts import words_of

__all__ = ["TreeBelowOracle"]

Entry = tuple[int, int]
"""A hash key and a group."""


class TreeBelowOracle:
    """Compares the maps of both tiers where nothing is under way any more.

    The world names the two in ``notes["below"]``. What was on the upper one while something went bad (``bad``), or
    between a ``detach`` and an ``attach``, need not have come below: nobody stores that again. Nor does what the lower
    one had and lost: the upper one may be reading it.
    """

    def __init__(self, world: World) -> None:
        self._groups = world.groups
        named = world.notes.get("below")
        self._tiers = tuple(map(str, named)) if isinstance(named, list) and len(named) == 2 else None
        """The upper one and the lower one."""
        self._excused: set[Entry] = set()
        self._had: tuple[set[Entry], set[Entry]] = set(), set()
        """What both had behind the last step that told it."""
        self._away = False

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the first entry that has not come below when all is done."""
        state = step.state
        if state is None or self._tiers is None or not state.pools.keys() >= {*self._tiers}:
            return
        upper, lower = (_entries(state, tier) for tier in self._tiers)
        (before, had), self._had = self._had, (upper, lower)
        self._excused |= had - lower
        if self._away or step.op in ("detach", "attach") or step.args.get("bad"):
            self._excused |= before | upper
        self._away = step.op == "detach" or (self._away and step.op != "attach")
        if step.op == "drain" and _is_done(step):
            yield from self._missing(upper - lower - self._excused, *self._tiers)

    def _missing(self, entries: set[Entry], upper: str, lower: str) -> Iterator[Violation]:
        for key, g in sorted(entries)[:1]:
            what = "tokens" if g == 0 else words_of(self._groups[g])
            text = f"all is done, and the {what} of key {key} are on {upper} and not on {lower}"
            about = ("full" if g == 0 else self._groups[g].kind,)
            yield Violation("O9", "not handed on to the tier below", text, about, (of_key(key),))


def _is_done(step: Step) -> bool:
    result = step.result
    return step.error is None and isinstance(result, dict) and not result.get("left") and not result.get("pending")


def _entries(state: State, tier: str) -> set[Entry]:
    return {(key, g) for key, g, blocks in state.pools[tier].cached or () if blocks}

"""R8: a listener to a tree's events knows prefixes, and never one with a hole.

What is cached of them is compared at every boundary (`events.py`, P12). Here each event is looked at by itself: a
parent is reported before its children, and removed after them. A prefix may be on several tiers: it is there as long as
it is on one. Trees that are told page by page, with their tokens, are judged in `tree_answers.py`.
"""

from collections.abc import Iterator, Sequence

from ...events.fold import Belief
from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_key

__all__ = ["TreeEventsOracle"]

_ENGINE = 0
"""A worker drives one engine: all that it tells is of one rank."""


class TreeEventsOracle:
    """A listener that builds a tree of what it is told."""

    def __init__(self, _world: World) -> None:
        self._belief = Belief[int, int]()
        self._children: dict[int, set[int]] = {}
        """By its key: the pages that were reported behind a page."""
        self._is_tree = False
        """Whether the engine has shown a tree: it does so from its first state on, or has none."""

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Hear the events of a step; they are judged where the engine has a tree."""
        shows_tree = step.state is not None and step.state.tree is not None
        self._is_tree = self._is_tree or shows_tree
        if not self._is_tree:
            return
        found: list[Violation] = []
        for effect in step.effects:
            if effect[0] == "stored":
                found += self._stored(*effect[1:])
            elif effect[0] == "removed":
                found += self._removed(*effect[1:])
            elif effect[0] == "cleared":
                self._belief.cleared(_ENGINE, effect[1])
        if shows_tree:
            yield from found

    def _stored(
        self, tier: str, g: int | None, keys: Sequence[int], parent: int | None = None, *_: object
    ) -> Iterator[Violation]:
        if keys and parent is not None and not self._belief.holds(_ENGINE, parent):
            text = f"page {keys[0]} is reported ({tier}) behind page {parent}, of which no tier has anything then"
            yield Violation("R8", "a page behind none", text, (tier,), (of_key(parent), of_key(keys[0])))
        self._belief.at(_ENGINE, tier, g).stored(keys)
        for above, key in zip((parent, *keys), keys, strict=False):
            if above is not None:
                self._children.setdefault(above, set()).add(key)

    def _removed(self, tier: str, g: int | None, keys: Sequence[int]) -> Iterator[Violation]:
        self._belief.at(_ENGINE, tier, g).removed(keys)
        for key in keys:
            if self._belief.holds(_ENGINE, key):
                continue
            for child in sorted(self._children.get(key, ())):
                if self._belief.holds(_ENGINE, child):
                    text = f"page {key} is reported as removed ({tier}), and page {child} behind it is still there"
                    yield Violation("R8", "removed before what is behind it", text, (tier,), (of_key(key),))
                    break

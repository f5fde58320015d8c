"""What a cache has that forgets nothing by itself: from the result of the pass that filled a block until an evict, a
reset, or a release for good (P14 from below, P11).

Judged by what states show, and whether or not anybody looks it up. Only where all groups are of full attention, and the
caller alone decides what goes: an engine that evicts when it needs room has other oracles (`hits.py`, `kept.py`).
"""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Violation, of_key, of_request
from .forks import source_of
from .nothing_kept import kept_all_the_same
from .pools import entries, shown

__all__ = ["RegisteredOracle"]

Entry = tuple[int, int]
"""A hash key and a group, as a prefix map has them."""


class RegisteredOracle:
    """Keeps books of what is cached, and compares them with the prefix map behind each step.

    Where the world says that nothing is kept (``notes["dialect"]["keep"]`` is ``none``), the map is empty. A request
    that ends with ``drop`` leaves nothing of which it was the last holder.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        self._keeps = world.dialect.get("keep") != "none"
        self._followed = not self._keeps or all(group.kind == "full" for group in world.groups)
        self._cached: set[Entry] = set()
        """What must be cached."""
        self._filled: dict[str, int] = {}
        """How many tokens of each request are computed: the blocks before were filled, and registered, by then."""
        self._last = State({})

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is cached and should not be, or the other way round."""
        if step.error is not None:  # Nobody knows how far it got.
            self._followed = False
        state = step.state
        if state is None or not self._followed or shown(state, self._device).cached is None:
            return
        gone = set() if step.skipped else self._forgotten(step, state)
        if step.op == "evict" and not step.skipped:
            yield from self._said(step, gone)
        self._cached -= gone
        if self._keeps:
            self._cached |= {entry for effect in step.effects for entry in self._computed(step, effect, ghost)}
        there = {*entries(shown(state, self._device))}
        yield from self._missing(self._cached - there, ghost)
        left = there & gone if self._keeps else there
        yield from self._left(step, left - self._cached)
        self._cached, self._last = there, state

    def _computed(self, step: Step, effect: list[object], ghost: Ghost) -> Iterator[Entry]:
        """What the result of a forward pass makes a request have: the blocks that it has filled.

        What it had filled before may have been registered as another one's, who has given that up for good since.
        """
        match effect:
            case ["request", str(r), *_]:  # A fork goes on where its source is.
                self._filled[r] = self._filled.get(source_of(step), 0)
            case ["processed", str(r), int(n)]:
                keys, per_hash = ghost.requests[r].keys, self.world.hash_block
                before, self._filled[r] = self._filled.get(r, 0), n
                for g, group in enumerate(self.world.groups):
                    ends = range(before // group.block * group.block + group.block, n + 1, group.block)
                    yield from ((keys[end // per_hash - 1], g) for end in ends if end // per_hash <= len(keys))

    def _forgotten(self, step: Step, state: State) -> set[Entry]:
        """What a step forgets: all; what nobody holds; or what a request alone held."""
        before = entries(shown(self._last, self._device))
        if step.op == "reset" and step.result is True:
            return {*before}
        held = _held(state)
        if step.op == "evict":
            return {entry for entry, blocks in before.items() if not blocks & held}
        if step.op == "finish" and step.args.get("drop"):
            own = {block for table in self._last.tables.get(str(step.args.get("request")), ()) for block in table}
            return {entry for entry, blocks in before.items() if blocks <= own - held}
        return set()

    def _said(self, step: Step, gone: set[Entry]) -> Iterator[Violation]:
        """What an evict answers, where that is whether anything went: who waits for room asks again or gives up."""
        if isinstance(step.result, bool) and step.result != bool(gone):
            text = f"an evict answers {step.result}, and {len(gone)} entries are kept for nobody"
            yield Violation("P11", "what an evict says", text, (str(step.result),))

    def _missing(self, missing: set[Entry], ghost: Ghost) -> Iterator[Violation]:
        if missing:
            k, g = min(missing)
            about = tuple(of_request(r) for r, request in ghost.requests.items() if k in request.keys)
            text = f"key {k} of group {g} is not cached: it was computed, and nothing was done since that forgets it"
            yield Violation("P14", "what was computed is not cached", text, about=(of_key(k), *about))

    def _left(self, step: Step, left: set[Entry]) -> Iterator[Violation]:
        if left and not self._keeps:
            yield kept_all_the_same(left)
        elif left:
            k, g = min(left)
            text = f"key {k} of group {g} is still cached behind {step.op}, and nobody holds its block"
            yield Violation("P11", "evict leaves an entry", text, (step.op,), (of_key(k),))


def _held(state: State) -> set[int]:
    return {block for tables in state.tables.values() for table in tables for block in table}

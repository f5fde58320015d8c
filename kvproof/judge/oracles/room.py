"""P7 from below: an allocation is refused only where too few blocks are free.

Judged of a cache that is asked for room for some tokens more (``grow``), as it is then, and that gives nothing up for
them: blocks that are kept for their content are no room. Only where all groups are of one kind, so that each free block
will do.
"""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Group, State, Step, World
from ..violation import Violation, of_request
from .forks import source_of
from .pools import entries, shown

__all__ = ["RoomOracle"]


class RoomOracle:
    """Follows how far each request is stored, and counts what it wants and what there is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        self._is_followed = len({(group.kind, group.block, group.window) for group in world.groups}) == 1
        self._stored: dict[str, int] = {}
        """How many tokens each request has stored."""
        self._last: State | None = None

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield a refusal for which there was room."""
        if step.op == "grow" and step.result is False and self._is_followed and self._last is not None:
            yield from self._refused(step, self._last, ghost)
        for effect in step.effects:
            match effect:
                case ["request", str(r), *_]:  # A fork goes on where its source is.
                    self._stored[r] = self._stored.get(source_of(step), 0)
                case ["lookup", str(r), int(found), *_]:
                    self._stored[r] = found
                case ["processed", str(r), int(n)]:
                    self._stored[r] = n
        self._last = self._last if step.state is None else step.state

    def _refused(self, step: Step, last: State, ghost: Ghost) -> Iterator[Violation]:
        r, pool = str(step.args.get("request")), shown(last, self._device)
        if pool.free is None or pool.cached is None or r not in self._stored:
            return
        before = self._stored[r]
        more = min(max(1, step.args.get("most", 1)), max(1, ghost.requests[r].tokens - before))
        tables = last.tables.get(r) or [[] for _ in self.world.groups]
        wanted = sum(_wanted(group, before + more, len(t)) for group, t in zip(self.world.groups, tables, strict=True))
        kept = {block for blocks in entries(pool).values() for block in blocks}
        room = len({*pool.free} - kept)
        if wanted <= room:
            text = f"{more} tokens more of {r} are refused: they want {wanted} blocks, and {room} are free"
            yield Violation("P7", "refused though there is room", text, about=(of_request(r),))


def _wanted(group: Group, tokens: int, has: int) -> int:
    """How many blocks a request with so many tokens wants of a group, beside those that it has."""
    kept = tokens if group.window is None or group.kind != "window" else min(tokens, group.window)
    return max(0, -(-kept // group.block) - has)

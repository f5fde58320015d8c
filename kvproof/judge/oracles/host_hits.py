"""What the host has of a request is found there: O6, and M4 of a mirror, from below."""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import Effect, Step, World
from ..violation import Violation, of_key, of_request
from .begun import begun_by
from .kept import is_upset
from .lengths import Lengths
from .needed import first_needed

__all__ = ["HostHitsOracle"]

ORACLE = "what the host has is not found"

Entry = tuple[int, int]
"""A hash key and a group, as a map has them."""


class HostHitsOracle:
    """Judges that a lookup goes on where the device's prefix ends, by what the host's map shows before and after.

    Only of a manager whose lookups go on there at all (``notes["loads"]``): another one stores for others to read. Of
    chunks of several blocks less than a whole one more need not be loaded; and where a drafter wants the end of a hit
    computed again, nothing is said. Of several tiers any one that has more, or may have had it for a while, may be the
    one that is asked.

    One group is held to what it has there without a gap. Of several a hit goes on as far as each has on the host what
    the token behind it attends to; what that needs of the device's part was found there.
    """

    def __init__(self, world: World) -> None:
        goes_on = [] if world.dialect.get("drop") else [n for n in world.notes.get("loads", ()) if n in world.tiers]
        self._hosts = [_Host(name, world) for name in goes_on]
        is_mirror = world.dialect.get("host") == "mirror"
        self._rule = "M4" if is_mirror else "O6"
        self._tokens = Lengths()

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the lookups of a step that found less than the host has all the time."""
        if not self._hosts:
            return
        for host in self._hosts:
            host.see(step)
        for effect in step.effects:
            self._tokens.follow(effect)
            if effect[0] == "lookup" and not ghost.requests[effect[1]].skips:
                _, r, local, external, limit = effect
                keys = ghost.requests[r].keys
                # Who loads may have all; one token is left to be computed in any case (P14).
                most = min(limit, self._tokens[r] - 1)
                asked = (host for host in self._hosts if host.changes or host.more(keys, local, most, host.perhaps))
                had = [(host.more(keys, local, most, host.there), host) for host in asked]
                least = min(had, key=lambda one: one[0], default=None)
                if least is not None and external < least[0]:
                    have, host = least
                    what = f"the {host.name} has {have} more, and its lookup found {external}"
                    about = (of_request(r), of_key(host.key_behind(keys, local + external)))
                    yield Violation(self._rule, ORACLE, f"behind {local} tokens of {r} {what}", about=about)


class _Host:
    """A tier that lookups go on to."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self._per_hash, self._groups = name, world.hash_block, world.groups
        self._block = max(group.block for group in world.groups)
        self._split = world.tiers[name].split
        self._size = self._block * self._split
        """The tokens of what it has under one key."""
        self._before: dict[Entry, list[int]] = {}
        self.there: set[Entry] = set()
        """What it has had all through a step."""
        self.perhaps: set[Entry] = set()
        """What it has had before or behind it."""
        self.changes = False
        """Whether something was stored in it: of many steps that is there for a while, perhaps."""

    def see(self, step: Step) -> None:
        """Take in a step."""
        self.there, self.perhaps, self.changes = set(), set(), False
        if step.state is None:
            return
        before, pool = self._before, step.state.pools.get(self.name)
        after = {(key, g): blocks for key, g, blocks in (pool.cached if pool is not None else None) or ()}
        written = {unit // self._split for effect in step.effects for unit in _written(effect, self.name)}
        self.there = {entry for entry, at in after.items() if before.get(entry) == at and written.isdisjoint(at)}
        if is_upset(step):  # A call that was cancelled may have put back what it took.
            self.there = set()
        self.perhaps, self.changes = {*before, *after}, bool(written)
        self._before = after

    def more(self, keys: Sequence[int], local: int, most: int, there: set[Entry]) -> int:
        """How many tokens it has behind those of the device, of at most so many; 0 where that is less than a chunk."""
        begin = local // self._size * self._size
        end = min(most, len(keys) * self._per_hash) // self._size * self._size
        while end > begin and not all(self._suffices(g, begin, end, keys, there) for g in range(len(self._groups))):
            end -= self._size
        return end - local if end - local >= self._size and local % self._block == 0 else 0

    def _suffices(self, g: int, begin: int, end: int, keys: Sequence[int], there: set[Entry]) -> bool:
        """Whether it has of a group what a hit that ends there needs of it, from the first token of a chunk on."""
        first = begin if len(self._groups) == 1 else max(begin, first_needed(self._groups[g], end))
        ends = range((first // self._size + 1) * self._size, end + 1, self._size)
        return all((keys[at // self._per_hash - 1], g) in there for at in ends)

    def key_behind(self, keys: Sequence[int], tokens: int) -> int:
        """The key of the chunk in which the next token stands."""
        return keys[(tokens // self._size + 1) * self._size // self._per_hash - 1]


def _written(effect: Effect, host: str) -> Iterator[int]:
    """The units of a tier that a copy begins to write: what their blocks were cached as is gone, whatever they are
    afterwards."""
    return (unit for _, _, tier, unit in begun_by(effect) if tier == host)

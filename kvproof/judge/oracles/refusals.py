"""P7 from below: blocks are refused only where too few of them are free.

Judged where an engine tells what it refuses (``refused``): for how many tokens slots were asked, what of them the
request has or was to be given, and which blocks were free. What a request may give up, or has no use for any more, it
is taken to want all the same: so nobody is held to an engine's finer count, and to no coarser one than this.
"""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import Group, Step, World
from ..violation import Violation, of_request

__all__ = ["RefusalsOracle"]


class RefusalsOracle:
    """Counts what is wanted at most, where blocks hold tokens: states of mamba layers are counted in other ways."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._counts = all(group.kind != "mamba" for group in world.groups)
        self._found: dict[str, int] = {}
        """How many tokens the last lookup of each request found here."""

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield a refusal for which there was room."""
        for effect in step.effects if self._counts else ():
            match effect:
                case ["lookup", str(r), int(local), *_]:
                    self._found[r] = local
                case ["refused", str(r), int(tokens), [*tables], [*free], int(others)]:
                    yield from self._refused(r, tokens, tables, free, others)

    def _refused(
        self, r: str, tokens: int, tables: Sequence[list[int]], free: list[int], others: int
    ) -> Iterator[Violation]:
        groups, found = self.world.groups, self._found.get(r, 0)
        more = sum(_more(group, tokens, len(table), found) for group, table in zip(groups, tables, strict=True))
        taken = {block for table in tables for block in table}.intersection(free)
        wanted, room = more + len(taken), len(free) - others
        if wanted <= room:
            text = f"{r} is refused room for {tokens} tokens: it wants {wanted} blocks at most, and {room} are free"
            yield Violation("P7", "refused though there is room", text, about=(of_request(r),))


def _more(group: Group, tokens: int, has: int, found: int) -> int:
    """The blocks of a group that are wanted beside those that are there; where a hit ends inside of one, that is
    copied."""
    return max(0, -(-tokens // group.block) - has) + (found % group.block > 0)

"""O6: what the tier below a prefix tree's host has of a request is found there, where the request waits for it."""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from ..ghost import Ghost
from ..ghost.requests import Request
from ..record import State, Step, World
from ..violation import Violation, of_request
from .tree_below import Below, is_done

__all__ = ["TreeFromBelowOracle"]

Entry = tuple[int, int]
"""A hash key and a group."""


@dataclass
class _Waiting:
    """A request that came when nothing was above the tier below, and nobody else was there."""

    name: str
    there: set[Entry]
    """What the tier below has had of it all the time."""


class TreeFromBelowOracle:
    """Compares the first lookup of a request that has the engine for itself with what the tier below has.

    The world's note ``waits`` names two numbers of tokens: what is worth a read at least, and what a request may be
    long, with what it is to make and two pages, for the smallest pool to have room for it. Judged is who comes first
    when all was done and both upper tiers are empty. As soon as another one comes, something goes bad or the tier
    below goes away, nothing is said.
    """

    def __init__(self, world: World) -> None:
        self._groups = world.groups
        self._page = world.groups[0].block
        self._below = Below.of(world)
        said: tuple[int, int] = world.notes.get("waits") or (0, 0)
        self._least, self._room = said
        self._waiting: _Waiting | None = None
        self._is_first = True
        """Whether nobody came since all was done."""
        self._had: State | None = None

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield that a request found less than that."""
        if self._below is None or not self._room or step.state is None:
            return
        before, self._had = self._had, step.state
        is_spoilt = self._below.spoils(step) or step.op == "reset" or step.error is not None
        waiting = None if is_spoilt else self._waiting
        came = [effect[1] for effect in step.effects if effect[0] == "request"]
        if came:
            waiting = self._arrived(step, before, came, ghost) if not is_spoilt and self._is_first else None
        self._is_first = not came and (self._is_first or (step.op == "drain" and is_done(step)))
        if waiting is not None:
            waiting.there &= self._below.entries(step.state)[1]
            looked_up = next((effect for effect in step.effects if effect[0] == "lookup"), None)
            if looked_up is not None:
                yield from self._judged(waiting, looked_up[2], looked_up[4], ghost)
            over = looked_up is not None or any(effect[0] == "end" for effect in step.effects)
            waiting = None if over else waiting
        self._waiting = waiting

    def _arrived(self, step: Step, before: State | None, came: list[str], ghost: Ghost) -> _Waiting | None:
        assert self._below is not None
        if before is None or step.op != "add" or len(came) != 1:
            return None
        upper, lower = self._below.entries(before)
        is_empty = not upper and not any(blocks for *_, blocks in next(iter(before.pools.values())).cached or ())
        most = step.args.get("most")
        wanted = ghost.requests[came[0]].tokens + (most if isinstance(most, int) else 1) + 2 * self._page
        return _Waiting(came[0], lower) if is_empty and wanted <= self._room else None

    def _judged(self, waiting: _Waiting, found: int, limit: int, ghost: Ghost) -> Iterator[Violation]:
        r = waiting.name
        have = self._has(ghost.requests[r], limit, waiting.there)
        if found < have >= self._least:
            text = f"the tier below had {have} tokens of {r}, which waited for it, and its lookup found {found}"
            kinds = tuple(group.kind for group in self._groups[1:])
            yield Violation("O6", "what the tier below has is not found", text, kinds, (of_request(r),))

    def _has(self, request: Request, limit: int, there: Set[Entry]) -> int:
        """How many tokens of whole pages are there, with all that the last one needs of each group."""
        pages = min(limit // self._page, len(request.keys))
        whole = next((n for n in range(pages) if (request.keys[n], 0) not in there), pages)
        return next((n * self._page for n in range(whole, 0, -1) if self._suffices(request, n, there)), 0)

    def _suffices(self, request: Request, pages: int, there: Set[Entry]) -> bool:
        """Of a window so many pages are asked for as what the next token reads fills: perhaps one more than that."""
        for g, group in enumerate(self._groups[1:], start=1):
            last = 1 if group.kind == "mamba" else -(-((group.window or 1) - 1) // self._page)
            if any((request.keys[n], g) not in there for n in range(max(0, pages - last), pages)):
                return False
        return True

"""D7 from above: what lies wholly behind a window is given up, as the dialect's ``behind`` says.

``given``: when a request goes on, nothing is left in its tables of what was behind its window before. ``needed``: it is
given up, at the latest, where its request would be refused for want of it.
"""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Thing, Violation, of_block, of_request
from .needed import first_needed

__all__ = ["BEHIND", "BehindOracle"]

BEHIND = "refused for what is behind a window"
"""What notices a refusal for which there is no need."""

_SPARED = 1
"""So many blocks of a window a manager may keep that rounds up, where it is asked for what it needs."""

_WANTS = ("grow", "step")
"""What asks for more blocks for a request that has some."""


class BehindOracle:
    """Follows how far requests are computed, and looks at what their tables still have."""

    def __init__(self, world: World) -> None:
        word = world.dialect.get("behind")
        self._windows = [g for g, group in enumerate(world.groups) if group.kind == "window"]
        self._is_judged = word in ("given", "needed") and bool(self._windows)
        self._at_once = word == "given"
        self._groups = world.groups
        self._device, tier = next(iter(world.tiers.items()))
        self._null = tier.null
        self._computed: dict[str, int] = {}
        self._goes_on: dict[str, int | None] = {}
        """Where the last pass of a request began, since it was admitted; None: that was the first one. What was found
        for it may stand behind its window until it goes on from there."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is held behind a window, and a request that is refused more for it."""
        if not self._is_judged:
            return
        for effect in step.effects:
            self._follow(effect)
        if step.state is None or step.skipped or step.error is not None:
            return
        if self._at_once:
            yield from self._held(step.state)
        if step.op in _WANTS and step.result is False:
            yield from self._refused(step, step.state, ghost)

    def _follow(self, effect: list[object]) -> None:
        match effect:
            case ["found", str(r), _, int(n)]:
                self._computed[r] = n
                self._goes_on.pop(r, None)
            case ["compute", str(r), int(start), *_]:
                self._goes_on[r] = start if r in self._goes_on else None
            case ["processed", str(r), int(n)]:
                self._computed[r] = n
            case ["preempted" | "end", str(r), *_]:
                self._computed.pop(r, None)
                self._goes_on.pop(r, None)
            case _:
                pass

    def _held(self, state: State) -> Iterator[Violation]:
        for r, tables in state.tables.items():
            start = self._goes_on.get(r)
            for g, blocks in self._behind(tables, start) if start is not None else ():
                text = f"{r} goes on from token {start}, and holds {blocks} behind its window in group {g}"
                yield Violation("D7", "held behind a window", text, (), self._about(r, blocks))

    def _refused(self, step: Step, state: State, ghost: Ghost) -> Iterator[Violation]:
        r = str(step.args.get("request"))
        computed, tables = self._computed.get(r, 0), state.tables.get(r)
        if tables is None or r not in ghost.requests:
            return
        tokens = step.args.get("tokens")
        left = len(tokens) if isinstance(tokens, list) else ghost.requests[r].tokens - computed
        until = computed + min(left, step.args.get("most") or left)
        wanted = sum(max(0, -(-until // group.block) - len(t)) for group, t in zip(self._groups, tables, strict=True))
        others = {block for each, ts in state.tables.items() if each != r for t in ts for block in t}
        others.update(state.holds.get(self._device, ()))
        idle = [block for _, blocks in self._behind(tables, computed) for block in blocks if block not in others]
        if 0 < wanted <= len(idle) - _SPARED * len(self._windows):
            text = f"{step.op} of {r} is refused for {wanted} blocks; it has {idle}, which lie behind its window"
            yield Violation("D7", BEHIND, text, (), self._about(r, idle))

    def _behind(self, tables: list[list[int]], tokens: int) -> Iterator[tuple[int, list[int]]]:
        """What each window has of blocks that the token behind so many does not attend to."""
        for g in self._windows:
            first = first_needed(self._groups[g], tokens) // self._groups[g].block
            blocks = [block for block in tables[g][:first] if block != self._null]
            if blocks:
                yield g, blocks

    def _about(self, r: str, blocks: list[int]) -> tuple[Thing, ...]:
        return of_request(r), of_block(self._device, blocks[0])

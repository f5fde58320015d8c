"""What the engine answers: lookups (P14), reset (P11, O10), the end (L1, L2)."""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Violation, of_block, of_request
from .counting import held_by_cache

__all__ = ["AnswersOracle"]


class AnswersOracle:
    """Judges results, and that everything comes to an end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._last: State | None = None
        self._drained = False
        self._live: dict[str, None] = {}
        """The requests that have not ended."""
        self._ran: dict[str, int] = {}
        """Of requests for which nothing is to be read, the positions that were run since they last began."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the answers of a step."""
        for effect in step.effects:
            if effect[0] == "lookup":
                _, r, local, external, limit = effect
                if local + external > limit or local < 0 or external < 0:
                    text = f"{local} + {external} tokens of {r} are said to be computed, at most {limit} can be"
                    yield Violation("P14", "length of a hit", text, about=(of_request(r),))
            elif effect[0] == "compute" and ghost.requests[effect[1]].skips:
                yield from self._skipped(*effect[1:])
            elif effect[0] == "preempted":
                self._ran.pop(effect[1], None)
            elif effect[0] == "request":
                self._live[effect[1]] = None
            elif effect[0] == "end":
                self._live.pop(effect[1], None)
        state = step.state
        if step.op == "drain" and not step.skipped and step.error is None:
            yield from self._drain(step, ghost)
        elif step.op == "reset" and not step.skipped and state is not None:
            yield from self._reset(step, state)
        rest: dict[str, int] = step.result if step.op == "drain" and step.error is None and not step.skipped else {}
        self._drained = bool(rest) and not rest["left"] and not rest["pending"]
        self._last = state

    def _skipped(self, r: str, start: int, tokens: Sequence[int]) -> Iterator[Violation]:
        """P14: a request that asked that nothing be read for it is computed from its first token on."""
        ran = self._ran.get(r, 0)
        if start > ran:
            text = f"{r} asked that nothing be read for it, and positions {ran} to {start - 1} are not computed"
            yield Violation("P14", "read though nothing is to be", text, about=(of_request(r),))
        self._ran[r] = max(ran, start + len(tokens))

    def _drain(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """L1, L2: with everything outstanding completed, all requests end, and nothing stays held."""
        left, pending = step.result["left"], step.result["pending"]
        if left:
            # Transfers of requests that never end are begun again and again: that they do not end is no other cause.
            others = f"and {pending} transfers with them" if pending else "though everything outstanding was completed"
            text = f"{left} requests never end, {others}"
            yield Violation("L1", "requests that never end", text, about=tuple(map(of_request, self._live)))
        elif pending:
            places = [pair for copy in ghost.copies.under_way.values() for pair in copy.pairs]
            about = tuple(of_block(tier, unit // self.world.tiers[tier].split) for tier, unit, _, _ in places)
            text = f"{pending} transfers never end"
            yield Violation("L2", "transfers that never end", text, about=about)
        if step.state is None or left or pending:
            return
        if kept := step.result.get("kept"):
            text = (
                f"all requests have ended, and a tier was not told so of {kept}, for which it keeps what it has of them"
            )
            yield Violation("L2", "requests that a tier keeps", text)
        if there := step.state.running + step.state.waiting:
            text = f"all requests have ended, and {there} are still in the engine"
            yield Violation("L2", "requests that stay", text)
        for tier, pool in step.state.pools.items():
            null = self.world.tiers[tier].null
            cached = held_by_cache(self.world, tier, pool)
            held = [b for b, count in enumerate(pool.ref or ()) if count != (b in cached) and b != null]
            if held:
                text = f"nothing is left to do, and {len(held)} blocks ({tier}) are still held: {held[:8]}"
                yield Violation("L2", "blocks held for ever", text, (tier,), tuple(of_block(tier, b) for b in held))

    def _reset(self, step: Step, state: State) -> Iterator[Violation]:
        device, told = next(iter(self.world.tiers)), step.args.get("connector")
        tiers = [tier for tier in state.pools if tier == device or (told and not self.world.tiers[tier].persists)]
        if step.result:
            for tier in tiers:
                if any(blocks for _, _, blocks in state.pools[tier].cached or ()):
                    text = f"reset answered true, and blocks are still cached ({tier})"
                    yield Violation("O10", "reset leaves entries", text, (tier,))
        elif self._drained:
            yield Violation("L2", "reset refused at rest", "reset is refused although nothing is held and nothing runs")
        elif self._last is not None and not any(effect[0] == "processed" for effect in step.effects):
            # What came of a step that was under way is registered before the reset looks.
            for tier in tiers:
                if tier in self._last.pools and self._last.pools[tier].cached != state.pools[tier].cached:
                    text = f"reset answered false, and the prefix map changed ({tier})"
                    yield Violation("O10", "refused reset changes something", text, (tier,))

"""What is under way: steps that have not run (D7) and copies (O2, O3, O8)."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_block, of_request

__all__ = ["FlightOracle"]


class FlightOracle:
    """Watches the blocks that scheduled forward passes and unfinished copies still read."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        self._ordered = world.dialect.get("reuse") == "ordered"
        """Whoever writes to a freed block does so behind all that was scheduled before: what is read stays right."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the state after a step."""
        if step.state is None or self._ordered:
            return
        pool = step.state.pools.get(self._device)
        if pool is not None and pool.free is not None and any(r.in_flight for r in ghost.requests.values()):
            yield from self._reads_in_flight(set(pool.free), ghost)

    def _reads_in_flight(self, free: set[int], ghost: Ghost) -> Iterator[Violation]:
        """D7: what a scheduled, unprocessed step reads is not free."""
        for r, request in ghost.requests.items():
            for scheduled in request.in_flight:
                for g, entry, block in scheduled.reads:
                    if block in free:
                        kind = self.world.groups[g].kind
                        text = (
                            f"block {block} (entry {entry} of {r} in group {g}, {kind}) is free, but the step that was "
                            f"scheduled for positions {scheduled.start} to {scheduled.start + scheduled.tokens - 1} "
                            "has not been processed and reads it"
                        )
                        about = (of_block(self._device, block), of_request(r))
                        # Windows and chunks are given up by one count: the kind of the group tells no causes apart.
                        yield Violation("D7", "freed under a scheduled step", text, (), about)
                        return

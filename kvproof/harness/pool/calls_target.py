"""The reference implementation as a target for the calls of machine P that may be refused."""

from typing import ClassVar

from ...checkers.target import Answer, Args
from ...refimpl.errors import RefusedError
from .target import PoolTarget

__all__ = ["CallsTarget"]


class CallsTarget(PoolTarget):
    """A `KVCacheManager`, of which anything may be asked at any moment.

    It has two ways to refuse: an answer (``None``, ``False``) where something does not fit now, and an error where the
    caller is mistaken. Both are refusals here. A refused call leaves behind nothing that the manager remembers, beyond
    the machine's state either.
    """

    level = "calls"
    ignored: ClassVar = {
        **PoolTarget.ignored,
        "ask_for": frozenset({"1 <= n"}),
        "return_last": frozenset({"1 <= n"}),
    }
    # A free of a block that others hold takes their hold: nobody can tell, and so it is not tried.
    unjudged: ClassVar = {**PoolTarget.unjudged, "free_without_hold": frozenset({"null", "ref_cnt"})}

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call; where it is refused, see that nothing is remembered of it."""
        call = getattr(self, f"_call_{action}", None)
        if call is None:
            return super().apply(action, args)
        before = self.residue()
        try:
            done = call(*args)
        except RefusedError:
            done = False
        events = tuple([self._hear(event) for event in self.manager.take_events()])
        if not done and (now := self.residue()) != before:
            return Answer(f"refused, but {before} became {now}", events)
        return Answer(done, events)

    def _call_ask_to_enter(self, r: int) -> bool:
        return self.manager.admit(r, self._need[r])

    def _call_ask_for(self, r: int, n: int) -> bool:
        return self.manager.allocate(r, n) is not None

    def _call_return_last(self, r: int, n: int) -> bool:
        self.manager.trim(r, n)
        return True

    def _call_send_away(self, r: int) -> bool:
        self.manager.preempt(r)
        return True

    def _call_free_without_hold(self, b: int) -> bool:
        self.manager.pool.free([b])
        return True

    def _call_ask_to_reset(self) -> bool:
        return self.manager.reset()

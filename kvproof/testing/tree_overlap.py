"""An asynchronous `PrefixTree` with several calls under way: who goes on at each ``await``, the case has drawn.

What a call gives is told when it answers, what it takes back when it is asked: a request has a lock from the answer of
`lock` until `unlock` is called, and the tree may have what it is offered from the moment when `insert` is called. In
whatever order a tree does the calls, each of them between its call and its answer, nothing is evicted then that is
locked, or that is no tree's. So nothing has to be guessed of that order (`kvproof/judge/oracles/tree_together.py`).

What a match finds it does not hold: until it is locked nothing is taken out of the tree, nor is a lock released, by
which nodes may be joined. So it is between an insert and the lock of what was inserted. A tree that does these in one
call (`match_and_lock`, `check_in`) is not spared that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from .manager import Request
from .takers import Sides
from .together import Call, CallsTogether
from .tree import PrefixTree
from .tree_system import TreeSystem

__all__ = ["OverlappingTree"]

_CANCELLED = ("match", "match_and_lock", "lock", "insert", "check_in", "evict")
"""The calls that are cancelled: a request whose `unlock` was would hold what nobody releases."""


class OverlappingTree(CallsTogether, TreeSystem):
    """The operations of the kit's scheduler, each a task that calls the tree."""

    def __init__(self, kind: type[PrefixTree], setup: dict[str, Any]) -> None:
        """Make a tree from a setup.

        Raises:
            Refused: it does not take one like that.
        """
        super().__init__(kind, setup)
        self._may_be_cancelled = () if kind.cancelled is None else _CANCELLED
        self._sides = Sides()
        self._asked: set[str] = set()
        """The requests that something is asked of while calls overlap."""

    # ------------------------------------------------------------------------------------------------- what is planned

    def _planned(self, begun: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Call]:
        self._asked = {args["request"] for _, args in begun if "request" in args}
        return self._plans(begun, several=("evict", "again"))

    def _plan_start(self, request: str, prompt: list[int], most: int = 0, salt: str | None = None) -> Any:
        if request in {**self._waiting, **self._running}:
            return None
        new = self._waiting[request] = Request(request, list(prompt), None, salt)
        self._tell("request", request, {"tokens": list(prompt), "adapter": None, "salt": salt})
        return lambda each: self._admits(each, new, most)

    def _plan_resume(self, request: str) -> Any:
        waiting = self._waiting.get(request)
        return None if waiting is None else lambda each: self._admits(each, waiting, 0)

    def _plan_step(self, request: str, most: int) -> Any:
        running = self._running.get(request)
        if running is None or running.computed >= len(running.tokens):
            return None
        until = len(running.tokens) if not most else min(len(running.tokens), running.computed + most)
        return lambda each: self._advances(each, running, until)

    def _plan_grow(self, request: str, tokens: list[int]) -> Any:
        running = self._running.get(request)
        if running is None or running.computed < len(running.tokens):
            return None
        return lambda each: self._grows(each, running, tokens)

    def _plan_finish(self, request: str) -> Any:
        running = self._running.get(request)
        return None if running is None else lambda each: self._ends(each, running, "finished")

    def _plan_abort(self, request: str) -> Any:
        running = self._running.get(request)
        if running is not None:
            return lambda each: self._ends(each, running, "aborted")
        return None if self._waiting.pop(request, None) is None else lambda _: self._is_over(request)

    def _plan_preempt(self, request: str) -> Any:
        running = self._running.get(request)
        return None if running is None else lambda each: self._waits_again(each, running)

    def _plan_evict(self, tokens: int) -> Any:
        """A tree without locks would evict what somebody has just found."""
        return (lambda each: self._evicts_some(each, tokens)) if self._evicts and self._locks else None

    def _plan_reset(self) -> None:
        """Nobody may run meanwhile, and nobody be let in: it is asked while nothing else is."""

    def _plan_again(self) -> Any:
        """What is checked in is inserted once more, of requests that have it all the time."""
        staying = [each for name, each in self._running.items() if name not in self._asked and each.found]
        return (lambda each: self._inserts_again(each, staying)) if staying else None

    # ------------------------------------------------------------------------------------------- what goes on together

    async def _admits(self, each: Call, request: Request, most: int) -> Any:
        """Match, lock, make room, compute and check in; without room the request waits, and holds nothing."""
        try:
            # Between a match and its lock nobody takes away what it has found; within one call the tree sees to that.
            async with nullcontext() if self._locks_found else self._sides.finding():
                await self._finds(each, request, len(request.tokens) - 1)
        except asyncio.CancelledError:
            request.found, request.own = [], None
            return self._was_cancelled(each)
        until = self._begins(request, most)
        outcome = await self._gets(each, request, until)
        if outcome is not True:
            await self._lets_go(each, request)
            self._waiting[request.name] = request
            return outcome
        self._admitted(request, until)
        return await self._moves(each, request)

    async def _finds(self, each: Call, request: Request, most: int) -> None:
        what = request.tokens[:most], request.salt
        if self._locks_found:
            self._matched(request, most, await self._call(each, "match_and_lock", *what), "match_and_lock")
        else:
            self._matched(request, most, await self._call(each, "match", *what))
            if self._locks:
                await self._call(each, "lock", request.own)
        self._tell_lock("locked", request, len(request.found))

    async def _gets(self, each: Call, request: Request, tokens: int) -> Any:
        """Slots for so many tokens: whether there are, or that it was cancelled."""
        missing = self._missing(request, tokens) - len(self._free)
        if missing > 0 and self._evicts and self._locks:
            try:
                await self._makes_free(each, missing * self._page)
            except asyncio.CancelledError:
                return self._was_cancelled(each)
        return self._takes(request, tokens)

    async def _makes_free(self, each: Call, tokens: int) -> None:
        async with self._sides.taking():
            self._evicted(tokens, await self._call(each, "evict", tokens))

    async def _evicts_some(self, each: Call, tokens: int) -> Any:
        try:
            await self._makes_free(each, tokens)
        except asyncio.CancelledError:
            return self._was_cancelled(each)
        return None

    async def _advances(self, each: Call, request: Request, until: int) -> Any:
        outcome = await self._gets(each, request, until)
        if outcome is not True:
            return outcome
        self._compute(request, until)
        return await self._moves(each, request)

    async def _grows(self, each: Call, request: Request, tokens: list[int]) -> Any:
        outcome = await self._gets(each, request, len(request.tokens) + len(tokens))
        if outcome is True:
            self._goes_on(request, tokens)
        return outcome

    async def _moves(self, each: Call, request: Request) -> Any:
        """Check in what is computed. One that is cancelled leaves it to the request, as it was."""
        whole = self._to_check_in(request)
        if not whole:
            return True
        slots = request.table[:whole]
        self._tell("offered", request.name, whole, slots)
        try:
            await (self._checks_in_alone if self._checks_in else self._checks_in_by_parts)(each, request, slots)
        except asyncio.CancelledError:
            self._tell("offered", request.name, 0, [])
            return self._was_cancelled(each)
        return True

    async def _checks_in_alone(self, each: Call, request: Request, slots: list[int]) -> None:
        """The tree does all of it in one call."""
        held = len(request.found)
        async with self._sides.taking():
            answer = await self._call(each, "check_in", *self._of_check_in(request, slots))
            had = self._moved(request, len(slots), slots, answer)
        self._has_moved(request, slots, held, had)

    async def _checks_in_by_parts(self, each: Call, request: Request, slots: list[int]) -> None:
        """The new lock comes first. Once the tree has the slots, nothing of it is cancelled."""
        held, old = len(request.found), request.own
        async with self._sides.finding():
            had = self._inserted(request, slots, await self._call(each, "insert", *self._of_insert(request, slots)))
            each.is_spared = True
            await self._finds(each, request, len(slots))
        each.is_spared = False
        self._has_moved(request, slots, held, had)
        await self._unlocks(each, request, old, held)

    async def _unlocks(self, each: Call, request: Request, node: Any, most: int) -> None:
        """What a lock holds it holds no more from now on, whenever it is released."""
        async with self._sides.taking():
            self._tell_lock("unlocked", request, most)
            if self._locks:
                await self._call(each, "unlock", node)

    async def _lets_go(self, each: Call, request: Request) -> None:
        await self._unlocks(each, request, request.own, len(request.found))
        self._is_out(request)

    async def _ends(self, each: Call, request: Request, how: str) -> Any:
        """Who has finished checks in before. He ends, though that be cancelled."""
        outcome = await self._moves(each, request) if how == "finished" else True
        await self._lets_go(each, request)
        self._tell("end", request.name, how)
        return None if outcome is True else outcome

    async def _is_over(self, request: str) -> None:
        """Who waits has nothing."""
        self._tell("end", request, "aborted")

    async def _waits_again(self, each: Call, request: Request) -> None:
        await self._lets_go(each, request)
        self._waiting[request.name] = request
        self._tell("preempted", request.name)

    async def _inserts_again(self, each: Call, requests: Sequence[Request]) -> Any:
        try:
            for request in requests:
                slots = request.table[: len(request.found)]
                self._inserted(request, slots, await self._call(each, "insert", *self._of_insert(request, slots)))
        except asyncio.CancelledError:
            return self._was_cancelled(each)
        return None

    def _was_cancelled(self, each: Call) -> str:
        """Nothing has come of the call; its operation goes on to its end."""
        if not each.is_cancelled:
            raise asyncio.CancelledError
        if each.task is not None:
            each.task.uncancel()
        return "cancelled"

"""An asynchronous `BlockManager` with several calls under way: who goes on at each ``await``, the case has drawn.

What the calls answer is told when they answer, what they take back when it is asked of them: a request holds a block
from the answer of its `allocate` until its `free` is called. Whatever the order in which a manager does the calls, each
of them between its call and its answer, no two hold a block then that one alone may hold. So nothing has to be guessed
of that order, and the oracles judge what was told as they always do; where they would have to know it, they ask for
less (`kvproof/judge/oracles/hits.py`). States are asked for when no call is under way.

So it is with a host tier: what copies read and write they hold from the answer of `store` or `load` until `stored` or
`loaded` is called. A lookup holds nothing on either tier: nobody else takes blocks, and nothing is stored, between what
it finds and the answer of `allocate`, or of `load`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .answers import was_reset
from .host_side import HostSide
from .layout import Tables
from .loading import Load, LoadingSystem
from .manager import BlockManager, Request
from .takers import Takers
from .together import Call, CallsTogether

__all__ = ["OverlappingSystem"]

_UPSET = ("evict", "reset")
"""Operations that may take away what a lookup has found."""


_CANCELLED = ("lookup", "host_lookup", "allocate", "commit", "store")
"""The calls that are cancelled: what becomes of a request whose `free` was, or whose `load`, nobody could say."""


class OverlappingSystem(CallsTogether, LoadingSystem):
    """The operations of the kit's scheduler, each a task that calls the manager."""

    def __init__(self, kind: type[BlockManager], setup: dict[str, Any]) -> None:
        """Make a manager from a setup.

        Raises:
            Refused: it does not take one like that.
        """
        super().__init__(kind, setup)
        self._may_be_cancelled = () if kind.cancelled is None else _CANCELLED
        self._takers = Takers()
        self._asked: set[str] = set()
        """The requests that something is asked of while calls overlap."""
        self._staying: set[int] = set()
        """Blocks of requests that nothing is asked of: nobody takes them."""
        self._staying_there: set[int] = set()
        """Host blocks that are read by loads which do not end."""
        self._upset = False
        self._before: dict[str, int] = {}
        """How many tokens of each request were computed before its last forward pass."""

    # ------------------------------------------------------------------------------------------------- what is planned

    def _planned(self, begun: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Call]:
        begun = [*self._with_names(begun)]
        self._asked = {args["request"] for _, args in begun if "request" in args}
        self._upset = any(op in _UPSET for op, _ in begun)
        staying = (each for name, each in self._running.items() if name not in self._asked)
        tables = (self._layout.read(each.table, "allocate") for each in staying)
        self._staying = {block for table in tables for block in self._layout.blocks(table)}
        self._staying_there = set() if self._host is None else self._host.read_by(self._loads.keys() - self._asked)
        return self._plans(begun, several=("mirror",))

    def _with_names(self, begun: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Of loads that end, whose they are: of these requests nothing else is asked meanwhile."""
        asked = {args.get("request") for _, args in begun}
        loads = [name for name in self._loads if name not in asked]
        for op, args in begun:
            if op != "loaded":
                yield op, args
            elif loads:
                yield op, {"request": loads.pop(args["pick"] % len(loads)), "failed": args["failed"]}

    def _plan_start(self, request: str, prompt: list[int], most: int = 0, **tenant: Any) -> Any:
        if request in {**self._waiting, **self._running, **self._loads}:
            return None
        new = self._waiting[request] = Request(request, list(prompt), tenant.get("adapter"), tenant.get("salt"))
        self._tell("request", request, {"tokens": list(prompt), "adapter": new.adapter, "salt": new.salt})
        return self._plan_admission(new, most)

    def _plan_resume(self, request: str) -> Any:
        waiting = self._waiting.get(request)
        return None if waiting is None else self._plan_admission(waiting, 0)

    def _plan_admission(self, request: Request, most: int) -> Any:
        self._tell_keys(request)
        return lambda each: self._admits(each, request, most)

    def _plan_step(self, request: str, most: int) -> Any:
        running = self._running.get(request)
        if running is None or running.computed >= len(running.tokens):
            return None
        until = len(running.tokens) if not most else min(len(running.tokens), running.computed + most)
        return lambda each: self._advances(each, running, until, [], [])

    def _plan_grow(self, request: str, tokens: list[int]) -> Any:
        running = self._running.get(request)
        if running is None or running.computed < len(running.tokens):
            return None
        before = len(running.tokens)
        running.tokens += tokens
        keys = self._keys(running)
        del running.tokens[before:]
        return lambda each: self._advances(each, running, before + len(tokens), tokens, keys)

    def _plan_finish(self, request: str) -> Any:
        return self._plan_end(request, "finished") if request in self._running else None

    def _plan_abort(self, request: str) -> Any:
        if request in self._loads:
            return lambda _: self._is_over(request)
        return self._plan_end(request, "aborted") if request in self._running or request in self._waiting else None

    def _plan_end(self, request: str, how: str) -> Any:
        self._waiting.pop(request, None)
        return lambda each: self._gives_back(each, request, "end", request, how)

    def _plan_preempt(self, request: str) -> Any:
        running = self._running.get(request)
        return None if running is None else lambda each: self._waits_again(each, running)

    def _plan_evict(self, block: int) -> Any:
        if not 0 <= block < self._blocks or block == self._kind.null_block:
            return None
        return lambda each: self._asks(each, "evict", block)

    def _plan_reset(self) -> Any:
        return lambda each: self._asks(each, "reset")

    def _plan_loaded(self, request: str, failed: int) -> Any:
        load = self._loads[request]
        return lambda each: self._ends_to_load(each, load, failed)

    def _plan_mirror(self, requests: Sequence[str]) -> Any:
        if self._host is None:
            return None
        host, pick = self._host, len(requests)
        offered = [self._running[name] for name in requests if name in self._running and name not in self._asked]
        return lambda each: self._mirrors(each, host, pick, offered)

    # ------------------------------------------------------------------------------------------- what goes on together

    async def _admits(self, each: Call, request: Request, most: int) -> Any:
        """Look up, hold, compute and commit. What it was told stays right between its calls, as it does for a scheduler
        that admits one request after the other."""
        try:
            admitted = await self._looks_up_and_takes(each, request, most)
        except asyncio.CancelledError:
            self._forget_found(request)
            return await self._was_cancelled(each, request)
        if request.name in self._loads:
            return True
        return await self._commits(each, request) if admitted else False

    async def _looks_up_and_takes(self, each: Call, request: Request, most: int) -> bool:
        async with self._takers.beside_others():
            found = await self._finds(each, request)
            if self._stays(found, request):
                return await self._takes(each, request, found, most)
        # A lookup takes hold of nothing: until this request has what was found, nobody else may be given it.
        async with self._takers.alone():
            found = await self._finds(each, request)
            return await self._takes(each, request, found, most)

    async def _finds(self, each: Call, request: Request) -> Tables:
        """What the device has of a request; what the host has behind it the request has for itself."""
        told = await self._call(each, "lookup", request) if self._looks_up else []
        found = self._layout.read(told, "lookup")
        request.found = self._layout.as_told(found)
        if self._host is not None:
            self._host.found(request, await self._call(each, "host_lookup", request) if self._host.finds else [])
        return found

    def _stays(self, found: Tables, request: Request) -> bool:
        """Whether nobody takes what was found, whatever goes on."""
        blocks, on_host = self._layout.blocks(found), self._layout.there(request.on_host)
        is_held = self._staying.issuperset(blocks) and self._staying_there.issuperset(on_host)
        return not (blocks or on_host) or (is_held and not self._upset)

    async def _takes(self, each: Call, request: Request, found: Tables, most: int) -> bool:
        external = self._layout.length(request.on_host) * self._size
        request.cached = len(found[0]) * self._size + external
        until = self._first_end(request, most)
        table = await self._allocated(each, request, until)
        if table is None:
            self._forget_found(request)
            return False
        if self._host is not None and external:
            request.table = self._layout.as_told(table)
            if self._host.begin_load(request, await self._call(each, "load", request)):
                self._begins_to_load(request, table, found, external, until)
                return True
        self._admitted(request, table, found, external)
        self._forward(request, table, max(until, request.computed))
        return True

    async def _allocated(self, each: Call, request: Request, until: int) -> Tables | None:
        table = await self._call(each, "allocate", request, until)
        self._tell_copies()
        return None if table is None else self._layout.read(table, "allocate")

    async def _advances(self, each: Call, request: Request, until: int, tokens: list[int], keys: list[int]) -> Any:
        before = len(request.tokens)
        request.tokens += tokens
        try:
            async with self._takers.beside_others():
                table = await self._allocated(each, request, until)
                if table is not None:
                    self._advanced(request, table, until, tokens, keys)
        except asyncio.CancelledError:
            del request.tokens[before:]
            return await self._was_cancelled(each, request)
        if table is None:
            del request.tokens[before:]
            return False
        return await self._commits(each, request)

    def _advanced(self, request: Request, table: Tables, until: int, tokens: list[int], keys: list[int]) -> None:
        if tokens:
            self._tell("append", request.name, list(tokens))
            self._tell_those(request, keys)
        self._forward(request, table, until)

    def _forward(self, request: Request, table: Tables, until: int) -> None:
        self._before[request.name] = request.computed
        super()._forward(request, table, until)

    async def _commits(self, each: Call, request: Request) -> Any:
        try:
            await self._call(each, "commit", request, request.computed)
        except asyncio.CancelledError:
            if not each.is_cancelled:
                raise
            # Its forward pass is over all the same, and reads nothing any more. What of it was cached is cached.
            self._tell("processed", request.name, self._before.get(request.name, 0))
            return "cancelled"
        self._tell("processed", request.name, request.computed)
        if self._host is not None and self._host.takes_time:
            return await self._offers(each, self._host, [request])
        return True

    async def _offers(self, each: Call, host: HostSide, requests: list[Request]) -> Any:
        """Let the manager store what it likes of these requests' blocks. One that is cancelled stores nothing."""
        try:
            async with self._takers.beside_others():
                host.begin_stores(await self._call(each, "store", requests))
        except asyncio.CancelledError:
            if not each.is_cancelled:
                raise
            return "cancelled"
        return True

    async def _mirrors(self, each: Call, host: HostSide, pick: int, offered: list[Request]) -> Any:
        """One of the stores that are under way is done, and these requests' blocks are offered."""
        for job in host.end_store(pick):
            await self._call(each, "stored", job)
        return await self._offers(each, host, offered)

    async def _ends_to_load(self, each: Call, load: Load, failed: int) -> Any:
        """What a load has brought is there when that is told; its request goes on behind the answer."""
        request = load.request
        await self._call(each, "loaded", request, self._ended(load, failed))
        self._running[request.name] = request
        if load.is_aborted:
            return await self._taken_back(each, request)
        if not self._goes_on(load):
            return True
        self._forward(request, load.table, load.until)
        return await self._commits(each, request)

    async def _is_over(self, request: str) -> None:
        """Who is aborted while he loads has his blocks until that has ended."""
        self._abort(request)

    async def _was_cancelled(self, each: Call, request: Request) -> str:
        """A request holds what it held; or else all of it, which is taken back."""
        if not each.is_cancelled:
            raise asyncio.CancelledError
        if self._kind.cancelled == "freed":
            if each.task is not None:
                each.task.uncancel()
            if request.name in self._running:
                await self._waits_again(each, request)
            else:
                await self._call(each, "free", request)
        return "cancelled"

    async def _gives_back(self, each: Call, name: str, *effect: Any) -> None:
        """What a request holds it holds no more from now on, whenever it is taken back."""
        self._tell(*effect)
        if name in self._running:
            await self._taken_back(each, self._running[name])

    async def _taken_back(self, each: Call, request: Request) -> None:
        del self._running[request.name]
        await self._call(each, "free", request)
        self._has_nothing(request)

    async def _waits_again(self, each: Call, request: Request) -> None:
        self._waiting[request.name] = request
        await self._gives_back(each, request.name, "preempted", request.name)

    async def _asks(self, each: Call, method: str, *args: Any) -> Any:
        async with self._takers.beside_others():
            answer = await self._call(each, method, *args)
        return was_reset(answer) if method == "reset" else None

"""The kit's scheduler, whatever serves it: requests arrive, wait, run, are preempted, end.

It speaks the words of `docs/protocol.md` (the level ``requests``). What a request is given, and by whom, is told by who
extends it.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .answers import whole
from .manager import Request
from .turns import run

__all__ = ["SKIPPED", "Scheduler", "waited"]

SKIPPED = object()


class Scheduler(ABC):
    """Requests, and what is done to them, around an adapter of the user's."""

    SKIPPED = SKIPPED

    def __init__(self, adapter: Any, operations: Collection[str]) -> None:
        """Play around an adapter; no operations but these are done."""
        self._adapter, self._operations = adapter, operations
        self._waiting: dict[str, Request] = {}
        self._running: dict[str, Request] = {}
        self._effects: list[list[Any]] = []
        self._begun: list[tuple[str, Mapping[str, Any]]] = []
        self.world: dict[str, Any] = {}

    # ----------------------------------------------------------------------------------------------------- the protocol

    def do(self, op: str, args: dict[str, Any]) -> Any:
        """Do an operation; one that is begun waits for those that it goes on with."""
        if op == "begin":
            self._begun.append((args["op"], {name: value for name, value in args.items() if name != "op"}))
            return None
        if op not in self._operations:
            raise ValueError(f"there is no operation {op}")
        operation: Callable[..., Any] = getattr(self, f"_{op}")
        result = operation(**args)
        if result is not SKIPPED:
            self._done()
        return result

    def take_effects(self) -> list[list[Any]]:
        """Return the effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what the adapter tells of its state."""

    def _tell(self, *effect: Any) -> None:
        self._effects.append(list(effect))

    # ------------------------------------------------------------------------------------------------------- operations

    def _start(
        self, request: str, prompt: list[int], most: int = 0, adapter: str | None = None, salt: str | None = None
    ) -> Any:
        if request in self._waiting or request in self._running:
            return SKIPPED
        new = self._waiting[request] = Request(request, list(prompt), adapter, salt)
        self._tell("request", request, {"tokens": list(prompt), "adapter": adapter, "salt": salt})
        return self._admit(new, most)

    def _resume(self, request: str) -> Any:
        waiting = self._waiting.get(request)
        return SKIPPED if waiting is None else self._admit(waiting, 0)

    def _step(self, request: str, most: int) -> Any:
        running = self._running.get(request)
        if running is None or running.computed >= len(running.tokens):
            return SKIPPED
        until = len(running.tokens) if not most else min(len(running.tokens), running.computed + most)
        return self._advance(running, until)

    def _grow(self, request: str, tokens: list[int]) -> Any:
        running = self._running.get(request)
        if running is None or running.computed < len(running.tokens):
            return SKIPPED
        return self._grown(running, tokens)

    def _finish(self, request: str) -> Any:
        return self._end(request, "finished") if request in self._running else SKIPPED

    def _abort(self, request: str) -> Any:
        if request in self._running:
            return self._end(request, "aborted")
        if self._waiting.pop(request, None) is None:
            return SKIPPED
        self._tell("end", request, "aborted")
        return None

    def _preempt(self, request: str) -> Any:
        running = self._running.get(request)
        if running is None:
            return SKIPPED
        self._let_go(running)
        self._waiting[request] = running
        self._tell("preempted", request)
        return None

    def _drain(self) -> Any:
        """What runs finishes; then what waits is admitted and finishes, the oldest first."""
        steps = 0
        for name in [*self._running]:
            self._end(name, "finished")
            steps += 1
        self._come_to_rest()
        for name, request in [*self._waiting.items()]:
            if self._admit_at_rest(request):
                self._end(name, "finished")
                self._come_to_rest()
                steps += 2
        return {"left": len(self._waiting), "pending": 0, "steps": steps}

    def _end(self, name: str, how: str) -> Any:
        self._let_go(self._running[name], finished=how == "finished")
        self._tell("end", name, how)
        return None

    # ------------------------------------------------------------------------------------------ who serves the requests

    def _come_to_rest(self) -> None:
        """Let what is under way without a call end, where there can be such: it is at rest then."""
        return

    @abstractmethod
    def _admit(self, request: Request, most: int) -> bool:
        """Let a request run, and compute up to so many of its tokens; without room nothing has happened."""

    def _admit_at_rest(self, request: Request) -> bool:
        """The same, with all of it, where nothing else runs and nothing is under way."""
        return self._admit(request, 0)

    @abstractmethod
    def _advance(self, request: Request, until: int) -> bool:
        """Compute a request's tokens up to a position; without room nothing has happened."""

    @abstractmethod
    def _grown(self, request: Request, tokens: list[int]) -> bool:
        """Let a request grow by tokens, and compute them; without room nothing has happened."""

    @abstractmethod
    def _let_go(self, request: Request, *, finished: bool = False) -> None:
        """Take back what a request was given: it runs no more."""

    def _done(self) -> None:
        """An operation is over: tell what came of it besides, where there can be such."""
        return

    # ----------------------------------------------------------------------------------------------------- small things

    def _ask(self, method: str, *args: Any) -> Any:
        """Call the adapter, and wait for an answer that takes its time."""
        answer = getattr(self._adapter, method)(*args)
        return whole(run(waited(answer)) if inspect.isawaitable(answer) else answer)


async def waited(answer: Any) -> Any:
    """Wait for an answer: a task is made of coroutines alone, and it may be anything that can be awaited."""
    return await answer

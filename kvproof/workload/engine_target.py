"""An engine as a target of a replay, driven by a worker at its level `workload`; requests are hashed on its side."""

from collections import defaultdict
from typing import Any, Literal

from ..engines.dialects import dialect_of
from ..engines.session import Run, Session
from ..judge.record import Case, Step
from .requests import BLOCK_TOKENS, Request, Workload
from .target import Started, View

__all__ = ["EngineFailedError", "EngineTarget"]


class EngineFailedError(Exception):
    """The engine raised, or its worker was lost."""


class EngineTarget:
    """A release's manager of KV blocks, with one full-attention group.

    Its events are not followed: it reports each copy of a block by itself.
    """

    def __init__(self, session: Session, work: Workload, capacity: int) -> None:
        """Make one with ``capacity`` usable blocks, and a null block besides; the session is then its own.

        Raises:
            EngineFailedError: the engine cannot be set up so.
            DialectError: it is not what its version says, or its engine's dialects are not known.
            WorkerError: no worker can be started.
        """
        dialect = dialect_of(session)
        self.name = f"{session.hello.engine}=={session.hello.version}"
        self.usable = capacity
        self.null_block = 0 if dialect.null else None
        self.free_order: Literal["append", "split"] = "split" if dialect.split else "append"
        self._session = session
        longest = max(request.length for request in work.requests)
        setup = {"block": BLOCK_TOKENS, "capacity": capacity, "max_len": longest + 1}
        self._answer(session.run(Case("workload", setup, []), keep=True))

    def start(self, request: Request) -> Started | None:
        """Look up, allocate, compute and register a prompt."""
        what = {"request": request.index, "blocks": request.blocks, "length": request.length}
        result = self._do("start", what, "none").result
        if result is None:
            return None
        if not isinstance(result, list) or len(result) != 3:
            raise EngineFailedError("the worker's answer to the start of a request is none")
        return Started(*result)

    def finish(self, request: Request) -> None:
        """Let a request leave."""
        self._do("finish", {"request": request.index}, "none")

    def take_events(self) -> None:
        """Return none: see above."""
        return

    def view(self) -> View:
        """Return the pool's state."""
        state = self._do("look", {}, "full").state
        if state is None or "device" not in state.pools:
            raise EngineFailedError("the worker told no state of the device's pool")
        pool = state.pools["device"]
        keys: defaultdict[int, list[int]] = defaultdict(list)
        for block, carried in pool.hashes or ():
            keys[block] += [k for k, _ in carried]
        copies = {k: blocks for k, _, blocks in pool.cached or ()}
        return View(pool.free or (), pool.num_free or 0, pool.ref or (), keys, copies)

    def _do(self, op: str, args: dict[str, Any], snapshots: str) -> Step:
        steps = self._answer(self._session.more([(op, args)], snapshots=snapshots))
        if not steps:
            raise EngineFailedError("the worker answered without a step")
        return steps[-1]

    @staticmethod
    def _answer(run: Run) -> list[Step]:
        """The steps of an answer that is one."""
        if run.failure is not None:
            raise EngineFailedError(run.failure.text)
        if run.answer.refused is not None:
            raise EngineFailedError(run.answer.refused)
        for step in run.answer.steps:
            if step.error is not None:
                raise EngineFailedError(f"{step.error.type}: {step.error.message}")
        return run.answer.steps

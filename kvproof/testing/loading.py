"""A `BlockManager` whose loads from the host take time: requests that hold blocks, and wait for what comes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .layout import Tables
from .manager import BlockManager, Request
from .scheduler import SKIPPED
from .system import System

__all__ = ["Load", "LoadingSystem"]


@dataclass
class Load:
    """A request that was admitted, and waits for what it loads."""

    request: Request
    table: Tables
    """Its blocks."""
    local: int
    """So many of its tokens were found on the device."""
    external: int
    """So many behind these are loaded."""
    until: int
    """So many will be computed when the rest has come."""
    there: int = 0
    """So many of its tokens are there when it has ended."""
    is_aborted: bool = False
    """It is over, and has its blocks until nobody writes to them any more."""


class LoadingSystem(System):
    """One manager, and requests of which some wait for a load; those do nothing else."""

    def __init__(self, kind: type[BlockManager], setup: dict[str, Any]) -> None:
        """Make a manager from a setup.

        Raises:
            Refused: it does not take one like that.
        """
        super().__init__(kind, setup)
        self._loads: dict[str, Load] = {}

    def state(self) -> dict[str, Any]:
        """Return what the manager tells of its state: what an aborted request has is held by its load."""
        state = super().state()
        for load in self._loads.values():
            state["holds"]["device"] += self._layout.blocks(load.table) if load.is_aborted else []
        return state

    def _with_blocks(self) -> dict[str, Request]:
        loading = {name: load.request for name, load in self._loads.items() if not load.is_aborted}
        return self._running | loading

    def _begins_to_load(self, request: Request, table: Tables, found: Tables, external: int, until: int) -> None:
        local = len(found[0]) * self._size
        self._loads[request.name] = Load(self._waiting.pop(request.name), table, local, external, until)
        self._tell("lookup", request.name, local, external, len(request.tokens) - 1)
        self._tell("found", request.name, found, local)
        self._tell_table(request, table)

    def _loaded(self, pick: int, failed: int) -> Any:
        """One of the loads under way ends; what of it has failed is computed."""
        if not self._loads:
            return SKIPPED
        load = self._loads[[*self._loads][pick % len(self._loads)]]
        self._ask("loaded", load.request, self._ended(load, failed))
        self._running[load.request.name] = load.request
        if load.is_aborted:
            self._let_go(load.request)
        elif self._goes_on(load):
            self._compute(load.request, load.table, load.until)
        return None

    def _ended(self, load: Load, failed: int) -> int:
        """The copies of a load end, and so many of the last ones fail: how many of the request's tokens are there now.

        With groups none fails: what a window has at one length of a hit it does not have at a shorter one.
        """
        assert self._host is not None
        del self._loads[load.request.name]
        came = self._host.end_load(load.request.name, 0 if self._kind.groups else failed)
        load.there = load.local + (load.external if self._kind.groups else came * self._size)
        return load.there

    @staticmethod
    def _goes_on(load: Load) -> bool:
        """A request whose load has ended runs behind what came; whether that is all, and the rest is computed at once.

        What is missing else later steps compute: others may look for it until then.
        """
        is_whole = load.there == load.request.cached
        load.request.cached = load.request.computed = load.there
        load.until = max(load.until, load.there)
        return is_whole

    def _start(self, request: str, *args: Any, **more: Any) -> Any:
        return SKIPPED if request in self._loads else super()._start(request, *args, **more)

    def _abort(self, request: str) -> Any:
        load = self._loads.get(request)
        if load is None:
            return super()._abort(request)
        if load.is_aborted:
            return SKIPPED
        load.is_aborted = True
        self._tell("end", request, "aborted")
        return None

    def _drain(self) -> Any:
        """What is loading comes first, and so it does when others are let in."""
        self._come_to_rest()
        return super()._drain()

    def _come_to_rest(self) -> None:
        while self._loads:
            self._loaded(0, 0)

"""Who may take blocks while calls overlap, and who may take out of a tree what others have found there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Sides", "Takers"]


class _Waiting:
    """Those who wait for a change."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def _change(self) -> None:
        change = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        await change

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)


class Takers(_Waiting):
    """Who may take blocks: many beside each other, or one alone."""

    def __init__(self) -> None:
        """Nobody does."""
        super().__init__()
        self._beside = 0
        self._is_alone = False

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Be one of many."""
        while self._is_alone:
            await self._change()
        self._beside += 1
        try:
            yield
        finally:
            self._beside -= 1
            self._changed()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only one."""
        while self._is_alone or self._beside:
            await self._change()
        self._is_alone = True
        try:
            yield
        finally:
            self._is_alone = False
            self._changed()


class Sides(_Waiting):
    """Who finds and then locks, or who takes away: many of either beside each other, and none beside the others."""

    def __init__(self) -> None:
        """Nobody does."""
        super().__init__()
        self._finding = self._taking = 0

    @asynccontextmanager
    async def finding(self) -> AsyncIterator[None]:
        """Find something, and lock it: nobody takes it away between the two."""
        while self._taking:
            await self._change()
        self._finding += 1
        try:
            yield
        finally:
            self._finding -= 1
            self._changed()

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Take something away, if nobody has locked it."""
        while self._finding:
            await self._change()
        self._taking += 1
        try:
            yield
        finally:
            self._taking -= 1
            self._changed()

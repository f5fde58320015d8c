"""Who may take blocks while calls overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Takers"]


class Takers:
    """Who may take blocks: many beside each other, or one alone."""

    def __init__(self) -> None:
        """Nobody does."""
        self._beside = 0
        self._is_alone = False
        self._waiting: list[asyncio.Future[None]] = []

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

    async def _change(self) -> None:
        change = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        await change

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

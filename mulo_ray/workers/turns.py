"""Who may decode now: up to `in_flight` micro-batches together, or one alone. Knows no Ray and no model."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Hands out slots 0..in_flight-1. Who wants to be alone goes before all who wait, and after all who work."""

    def __init__(self, in_flight: int) -> None:
        self._slots = list(reversed(range(in_flight)))
        self._working = 0
        self._want_alone = 0
        self._alone = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[int]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._slots and not self._want_alone and not self._alone)
            slot = self._slots.pop()
            self._working += 1
        try:
            yield slot
        finally:
            async with self._changed:
                self._slots.append(slot)
                self._working -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[int]:
        async with self._changed:
            self._want_alone += 1
            try:
                await self._changed.wait_for(lambda: not self._working and not self._alone)
            finally:
                self._want_alone -= 1
            self._alone = True
        try:
            yield self._slots[-1]
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()

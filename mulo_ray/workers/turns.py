"""Who may decode now: up to `in_flight` micro-batches together, or one alone. Knows no Ray and no model."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Hands out slots 0..in_flight-1; `alone` waits until all of them are free and holds them all."""

    def __init__(self, in_flight: int) -> None:
        self._in_flight = in_flight
        self._free = asyncio.Semaphore(in_flight)
        self._one_waits_for_all = asyncio.Lock()  # two that gathered slots side by side would wait for each other
        self._slots = list(reversed(range(in_flight)))

    @asynccontextmanager
    async def together(self) -> AsyncIterator[int]:
        async with self._free:
            slot = self._slots.pop()
            try:
                yield slot
            finally:
                self._slots.append(slot)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[int]:
        held = 0
        async with self._one_waits_for_all:
            try:
                while held < self._in_flight:
                    await self._free.acquire()
                    held += 1
                yield self._slots[-1]
            finally:
                for _ in range(held):
                    self._free.release()

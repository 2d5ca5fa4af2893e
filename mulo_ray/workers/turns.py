"""Who may decode now: up to `in_flight` micro-batches together, or one alone. Knows no Ray and no model."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


class Turn:
    """Leave to work, and a slot to do it in. The slot may go back before the work is over."""

    def __init__(self, slot: int, give_back: Callable[[int], Awaitable[None]] | None = None) -> None:
        self.slot = slot
        self._give_back = give_back

    async def free(self) -> None:
        """The slot may be handed out again; a second call does nothing, nor does one of a turn alone."""
        if self._give_back is not None:
            give_back, self._give_back = self._give_back, None
            await give_back(self.slot)


class Turns:
    """Hands out slots 0..in_flight-1. Who wants to be alone goes before all who wait, and after all who work."""

    def __init__(self, in_flight: int) -> None:
        self._slots = list(reversed(range(in_flight)))
        self._working = 0
        self._want_alone = 0
        self._alone = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[Turn]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._slots and not self._want_alone and not self._alone)
            turn = Turn(self._slots.pop(), self._take_back)
            self._working += 1
        try:
            yield turn
        finally:
            await turn.free()
            async with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Turn]:
        async with self._changed:
            self._want_alone += 1
            try:
                await self._changed.wait_for(lambda: not self._working and not self._alone)
            finally:
                self._want_alone -= 1
            self._alone = True
        try:
            yield Turn(self._slots[-1])
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()

    async def _take_back(self, slot: int) -> None:
        async with self._changed:
            self._slots.append(slot)
            self._changed.notify_all()

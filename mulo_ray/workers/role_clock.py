"""When one role worked, and when it waited with work open: measured inside its own process, handed on in laps.

Knows no Ray and no model.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

Lap = tuple[float, float, float]
"""(start, end, waited): a stretch of work on the machine's wall clock, and the seconds that the role had waited before
it although a micro-batch was open. All in seconds."""


class RoleClock:
    """One per role; calls do not overlap, as those of an actor do not.

    Intervals are monotonic; one offset, read once, lays those of several processes on a common axis.
    """

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()
        self._busy_s: dict[int, float] = {}
        self._laps: list[Lap] = []
        self._left: float | None = None  # when the last call ended

    @contextmanager
    def busy(self, slot: int) -> Iterator[None]:
        """The body works for `slot`, which is open from its first such call until `close`."""
        started = time.monotonic()
        waited = started - self._left if self._busy_s and self._left is not None else 0.0
        self._busy_s.setdefault(slot, 0.0)
        try:
            yield
        finally:
            self._left = time.monotonic()
            if slot in self._busy_s:
                self._busy_s[slot] += self._left - started
            self._laps.append((started + self._offset_s, self._left + self._offset_s, waited))

    def close(self, slot: int) -> float:
        """The slot is done, also when it failed: the seconds that the role worked for it."""
        return self._busy_s.pop(slot, 0.0)

    def laps(self) -> list[Lap]:
        """What was noted since the last call."""
        laps, self._laps = self._laps, []
        return laps

"""What the user sees while a run works: a line every few seconds, or a bar on a terminal. Knows no Ray."""

import sys
import time
from typing import TextIO

LINE_EVERY_S = 5.0
BAR_CELLS = 30


class Progress:
    """Counts of this run; `total` includes what earlier runs did."""

    def __init__(self, *, total: int, done_before: int, failed_before: int = 0, stream: TextIO | None = None) -> None:
        self.total, self._done_before, self._failed_before = total, done_before, failed_before
        self.made = self.failed = 0
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._started = self._shown = time.monotonic()
        self._first: tuple[float, int] | None = None  # when the first rows came, and how many

    def say(self, sentence: str) -> None:
        """A line of its own."""
        print(sentence, file=self._stream, flush=True)

    def add(self, *, made: int, failed: int) -> None:
        self.made, self.failed = self.made + made, self.failed + failed
        if made + failed and self._first is None:
            self._first = (time.monotonic(), self.made + self.failed)

    def tick(self, *, last: bool = False) -> None:
        """Show the counts if it is time."""
        now = time.monotonic()
        if not last and now - self._shown < (0.5 if self._terminal else LINE_EVERY_S):
            return
        self._shown = now
        if self._terminal:
            cells = BAR_CELLS * self._settled // max(1, self.total)
            bar = "#" * cells + "." * (BAR_CELLS - cells)
            print(f"\r\x1b[K[{bar}] {self.line(now)}", end="\n" if last else "", file=self._stream, flush=True)
        else:
            print(self.line(now), file=self._stream, flush=True)

    @property
    def _settled(self) -> int:
        return self._done_before + self._failed_before + self.made + self.failed

    def line(self, now: float) -> str:
        """`96/5000 done, 1 failed, 0.84 images/s, 97 min left`."""
        text = f"{self._done_before + self.made}/{self.total} done, {self._failed_before + self.failed} failed"
        if not self.made + self.failed:
            return f"{text}, starting workers ({now - self._started:.0f} s)"
        rate = self._rate(now)
        left_s = (self.total - self._settled) / rate
        left = (
            f"{left_s:.0f} s"
            if left_s < 120
            else f"{left_s / 60:.0f} min"
            if left_s < 7200
            else f"{left_s / 3600:.1f} h"
        )
        return f"{text}, {rate:.2f} images/s, {left} left"

    def _rate(self, now: float) -> float:
        """Images per second since the first ones came; until more did, since the start, which includes loading."""
        settled = self.made + self.failed
        if self._first is not None and settled > self._first[1]:
            return (settled - self._first[1]) / max(1e-9, now - self._first[0])
        return settled / max(1e-9, now - self._started)

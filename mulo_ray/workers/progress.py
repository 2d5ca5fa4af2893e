"""What the user sees while a run works: a line every few seconds, or a bar on a terminal. Knows no Ray."""

import sys
import time
from typing import TextIO

LINE_EVERY_S = 5.0
BAR_CELLS = 30


class Progress:
    """Counts of this run; `total` includes what earlier runs did."""

    def __init__(self, *, total: int, done_before: int, stream: TextIO | None = None) -> None:
        self.total, self.before = total, done_before
        self.made = self.failed = 0
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._started = self._shown = time.monotonic()

    def say(self, sentence: str) -> None:
        """A line of its own."""
        print(sentence, file=self._stream, flush=True)

    def add(self, *, made: int, failed: int) -> None:
        self.made, self.failed = self.made + made, self.failed + failed

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
        return self.before + self.made + self.failed

    def line(self, now: float) -> str:
        """`96/5000 done, 1 failed, 0.84 images/s, 97 min left`."""
        text = f"{self.before + self.made}/{self.total} done, {self.failed} failed"
        if not self.made + self.failed:
            return f"{text}, starting workers ({now - self._started:.0f} s)"
        rate = (self.made + self.failed) / max(1e-9, now - self._started)
        left_s = (self.total - self._settled) / rate
        left = (
            f"{left_s:.0f} s"
            if left_s < 120
            else f"{left_s / 60:.0f} min"
            if left_s < 7200
            else f"{left_s / 3600:.1f} h"
        )
        return f"{text}, {rate:.2f} images/s, {left} left"

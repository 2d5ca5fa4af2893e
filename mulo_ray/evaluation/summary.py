"""Costs and verdicts of a run, summed up from its ledger rows: per-image spreads, shares, seconds per phase.

Counts every effective row that carries stats, whichever session made it. Knows no file and no picture.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mulo_ray.types import LedgerRow

COUNTS = (
    "forwards_target",
    "forwards_drafter",
    "query_positions",
    "cycles",
    "accepted",
    "rejected",
    "resampled",
    "islands",
    "depth",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One count over the images of a run."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """`shares` are of the cells that were verified; empty where nothing was drafted. `seconds` are means per image."""

    images: int = 0
    images_with_stats: int = 0
    bytes: int = 0
    per_image: dict[str, Spread] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


class Totals:
    """Sums over rows as they come, in memory that does not grow with them."""

    def __init__(self) -> None:
        self._images = self._with_stats = self._bytes = 0
        self._sums = dict.fromkeys(COUNTS, 0.0)
        self._low, self._high = dict.fromkeys(COUNTS, math.inf), dict.fromkeys(COUNTS, -math.inf)
        self._seconds: dict[str, float] = {}

    def add(self, row: LedgerRow) -> None:
        """Count one row, if it is ok; one without stats counts as an image and nothing else."""
        if row.status != "ok":
            return
        self._images, self._bytes = self._images + 1, self._bytes + row.bytes
        if not row.stats:
            return
        stats: dict[str, Any] = json.loads(row.stats)
        self._with_stats += 1
        for name in COUNTS:
            count = float(stats.get(name, 0))
            self._sums[name] += count
            self._low[name], self._high[name] = min(self._low[name], count), max(self._high[name], count)
        for phase, seconds in stats.get("seconds", {}).items():
            self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds

    def summary(self) -> Summary:
        """What was added so far."""
        images = self._with_stats
        if not images:
            return Summary(images=self._images, bytes=self._bytes)
        verified = self._sums["accepted"] + self._sums["rejected"]
        return Summary(
            images=self._images,
            images_with_stats=images,
            bytes=self._bytes,
            per_image={
                name: Spread(mean=self._sums[name] / images, low=self._low[name], high=self._high[name])
                for name in COUNTS
            },
            shares={name: self._sums[name] / verified for name in ("accepted", "rejected", "resampled")}
            if verified
            else {},
            seconds={phase: self._seconds[phase] / images for phase in sorted(self._seconds)},
        )


def summarise(rows: Iterable[LedgerRow]) -> Summary:
    """Sum up the ok rows."""
    totals = Totals()
    for row in rows:
        totals.add(row)
    return totals.summary()

"""Costs and verdicts of a run, summed up from its ledger rows: per-image spreads, shares, seconds per phase.

Counts every effective row that carries stats, whichever session made it. Knows no file and no picture.
"""

import json
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


def summarise(rows: Iterable[LedgerRow]) -> Summary:
    """Sum up the ok rows; a row without stats counts as an image and nothing else."""
    ok = [row for row in rows if row.status == "ok"]
    stats: list[dict[str, Any]] = [json.loads(row.stats) for row in ok if row.stats]
    if not stats:
        return Summary(images=len(ok), bytes=sum(row.bytes for row in ok))
    phases = sorted({phase for one in stats for phase in one.get("seconds", {})})
    return Summary(
        images=len(ok),
        images_with_stats=len(stats),
        bytes=sum(row.bytes for row in ok),
        per_image={name: _spread([float(one.get(name, 0)) for one in stats]) for name in COUNTS},
        shares=_shares(stats),
        seconds={p: sum(one.get("seconds", {}).get(p, 0.0) for one in stats) / len(stats) for p in phases},
    )


def _spread(values: list[float]) -> Spread:
    return Spread(mean=sum(values) / len(values), low=min(values), high=max(values))


def _shares(stats: list[dict[str, Any]]) -> dict[str, float]:
    total = {name: sum(one.get(name, 0) for one in stats) for name in ("accepted", "rejected", "resampled")}
    verified = total["accepted"] + total["rejected"]
    return {name: count / verified for name, count in total.items()} if verified else {}

"""How sure a difference is: one-sided bounds by drawing captions again, the same ones for everything compared."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mulo_ray.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A statistic of all captions. With the level's certainty it is above `lower`; with the same, below `upper`."""

    estimate: float
    lower: float
    upper: float


def paired_bounds(
    statistic: Callable[[np.ndarray], float], count: int, *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Bounds:
    """Percentile bounds of `statistic` over `count` captions.

    `statistic` gets indices (count,) of the captions drawn, and reads everything it compares at these same indices:
    `lambda i: mulo[i].mean() - ar[i].mean()`. Raises UsageError without captions or for a level outside (0.5, 1).
    """
    if count < 1 or not 0.5 < level < 1:
        raise UsageError(f"bounds need one caption or more and a level in (0.5, 1), got {count} and {level}")
    rng = np.random.default_rng(seed)
    drawn = [statistic(rng.integers(0, count, count)) for _ in range(draws)]
    lower, upper = np.quantile(drawn, [1 - level, level])
    return Bounds(estimate=float(statistic(np.arange(count))), lower=float(lower), upper=float(upper))


def rate_difference(ours: np.ndarray, theirs: np.ndarray, *, level: float = 0.95, seed: int = 0) -> Bounds:
    """Bounds of the difference of two hit rates over the same captions (n,) of booleans, in that order."""
    if len(ours) != len(theirs):
        raise UsageError(f"paired rates need the same captions on both sides, got {len(ours)} and {len(theirs)}")
    gain = ours.astype(np.float64) - theirs.astype(np.float64)
    return paired_bounds(lambda chosen: float(gain[chosen].mean()), len(gain), level=level, seed=seed)

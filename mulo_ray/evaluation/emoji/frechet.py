"""FD-EffLite0: the Frechet distance between two sets of pictures on efficientnet-lite0 features. It is not FID.

Comparable only with itself: same network, same input size, and about the same number of pictures (few pictures make it
larger). Knows no picture and no file.
"""

from dataclasses import dataclass

import numpy as np

from mulo_ray.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Mean (d,) and covariance (d, d) float64 of `count` feature vectors."""

    mean: np.ndarray
    covariance: np.ndarray
    count: int

    def projected(self, basis: np.ndarray) -> "Moments":
        """The moments of the features times `basis` (d, k)."""
        basis = basis.astype(np.float64)
        return Moments(mean=self.mean @ basis, covariance=basis.T @ self.covariance @ basis, count=self.count)


def moments(features: np.ndarray) -> Moments:
    """Mean and covariance of features (n, d); UsageError for fewer than two pictures."""
    if len(features) < 2:
        raise UsageError(f"a Frechet distance needs two pictures or more on each side, got {len(features)}")
    wide = features.astype(np.float64)
    mean = wide.mean(0)
    centred = wide - mean
    return Moments(mean=mean, covariance=centred.T @ centred / (len(wide) - 1), count=len(wide))


def frechet_distance(one: Moments, other: Moments) -> float:
    """Squared Frechet distance between the normal distributions of these moments; 0 up to rounding for equal ones.

    The trace of the root of the covariances' product comes from symmetric matrices alone, so it is always real.
    """
    root = _root(one.covariance)
    inner = np.linalg.eigvalsh(root @ other.covariance @ root)
    cross = np.sqrt(np.clip(inner, 0, None)).sum()
    apart = one.mean - other.mean
    return float(apart @ apart + np.trace(one.covariance) + np.trace(other.covariance) - 2 * cross)


def principal_axes(moments: Moments, count: int) -> np.ndarray:
    """The `count` directions (d, count) of largest variance, largest first."""
    return np.linalg.eigh(moments.covariance)[1][:, ::-1][:, :count]


def pack(moments: Moments) -> dict[str, np.ndarray]:
    """Arrays small enough to ship: spreads in float32, correlations above the diagonal in float16."""
    spread = np.sqrt(np.diag(moments.covariance))
    safe = np.where(spread > 0, spread, 1)
    above = (moments.covariance / np.outer(safe, safe))[np.triu_indices(len(spread), 1)]
    return {
        "mean": moments.mean.astype(np.float32),
        "spread": spread.astype(np.float32),
        "correlations": above.astype(np.float16),
        "count": np.array(moments.count),
    }


def unpack(arrays: dict[str, np.ndarray]) -> Moments:
    """The moments that `pack` made small, to float16's three digits of correlation."""
    spread = arrays["spread"].astype(np.float64)
    correlation = np.zeros((len(spread), len(spread)))
    correlation[np.triu_indices(len(spread), 1)] = arrays["correlations"]
    correlation += correlation.T
    np.fill_diagonal(correlation, 1)
    covariance = correlation * np.outer(spread, spread)
    return Moments(mean=arrays["mean"].astype(np.float64), covariance=covariance, count=int(arrays["count"]))


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return root

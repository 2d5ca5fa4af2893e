"""Bounds on data whose spread is known: they cover what they should, and pairing narrows them."""

import numpy as np
import pytest

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.emoji.bootstrap import paired_bounds, rate_difference


def test_bounds_of_a_mean_are_those_of_its_normal_distribution() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    bounds = paired_bounds(lambda chosen: float(values[chosen].mean()), 1000)
    error = values.std() / np.sqrt(1000)
    assert bounds.estimate == pytest.approx(values.mean())
    assert bounds.upper == pytest.approx(values.mean() + 1.645 * error, abs=0.2 * error)
    assert bounds.lower == pytest.approx(values.mean() - 1.645 * error, abs=0.2 * error)


def test_one_sided_bounds_cover_nineteen_times_in_twenty() -> None:
    """True difference of two rates: 0.6 - 0.7. 200 experiments; 10 +- 3 are expected above, 25 would be five sigma."""
    above = below = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        bounds = paired_bounds_of(rng.random(300) < 0.6, rng.random(300) < 0.7, seed)
        above += bounds.upper < -0.1
        below += bounds.lower > -0.1
    assert 0 < above < 25
    assert 0 < below < 25


def paired_bounds_of(ours: np.ndarray, theirs: np.ndarray, seed: int):
    gain = ours.astype(float) - theirs
    return paired_bounds(lambda chosen: float(gain[chosen].mean()), len(gain), draws=400, seed=seed)


def test_pairing_is_narrower_than_two_separate_draws() -> None:
    rng = np.random.default_rng(5)
    theirs = rng.random(500) < 0.7
    ours = theirs ^ (rng.random(500) < 0.04)
    paired = rate_difference(ours, theirs)
    apart = rate_difference(rng.permutation(ours), theirs)
    assert paired.upper - paired.lower < 0.4 * (apart.upper - apart.lower)
    assert paired.lower <= paired.estimate <= paired.upper


def test_the_same_seed_gives_the_same_bounds() -> None:
    ours, theirs = np.arange(50) % 2 == 0, np.arange(50) % 3 == 0
    assert rate_difference(ours, theirs, seed=3) == rate_difference(ours, theirs, seed=3)


def test_what_cannot_be_bounded_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="one caption or more"):
        paired_bounds(lambda chosen: 0.0, 0)
    with pytest.raises(UsageError, match=r"level in \(0\.5, 1\)"):
        paired_bounds(lambda chosen: 0.0, 3, level=0.05)
    with pytest.raises(UsageError, match="same captions on both sides, got 3 and 4"):
        rate_difference(np.ones(3, bool), np.ones(4, bool))

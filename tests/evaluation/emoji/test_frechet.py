"""The Frechet distance on synthetic features: zero for equal sets, closed forms for others, and small files."""

import numpy as np
import pytest

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.emoji.frechet import frechet_distance, moments, pack, principal_axes, unpack


def _set(seed: int, count: int = 400, shift: float = 0.0, spread: float = 1.0) -> np.ndarray:
    """Correlated features (count, 24)."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(24, 24)) / 5
    return (rng.normal(size=(count, 24)) * spread) @ mixing + shift


def test_equal_sets_are_no_distance_apart() -> None:
    features = moments(_set(0))
    assert abs(frechet_distance(features, features)) < 1e-9


def test_a_shift_costs_its_squared_length() -> None:
    assert frechet_distance(moments(_set(0)), moments(_set(0, shift=0.5))) == pytest.approx(24 * 0.25)


def test_a_spread_costs_the_difference_of_roots() -> None:
    one = moments(_set(0))
    twice = frechet_distance(one, moments(_set(0, spread=2.0)))
    # (2 - 1) squared, times every variance and the squared mean
    assert twice == pytest.approx(np.trace(one.covariance) + one.mean @ one.mean)


def test_other_samples_of_one_distribution_are_near_and_another_is_far() -> None:
    near = frechet_distance(moments(_set(0)), moments(_set(1)))
    far = frechet_distance(moments(_set(0)), moments(_set(1, spread=1.5)))
    assert 0 < near < far / 5


def test_fewer_pictures_than_features_are_still_real() -> None:
    few = moments(_set(3, count=6))
    assert np.isfinite(frechet_distance(few, moments(_set(4))))
    assert abs(frechet_distance(few, few)) < 1e-5


def test_axes_hold_most_of_the_variance() -> None:
    features = _set(0)
    axes = principal_axes(moments(features), 6)
    assert np.allclose(axes.T @ axes, np.eye(6))
    kept = moments(features @ axes)
    projected = moments(features).projected(axes)
    assert np.allclose(kept.covariance, projected.covariance)
    assert np.allclose(kept.mean, projected.mean)
    assert np.all(np.diff(np.diag(projected.covariance)) <= 1e-9), "largest first"
    assert np.trace(projected.covariance) > 0.5 * np.trace(moments(features).covariance)


def test_packed_moments_come_back_to_three_digits() -> None:
    features = _set(0, shift=3.0)
    features[:, 5] = 0.25  # a feature that never moves
    whole = moments(features)
    packed = pack(whole)
    assert packed["correlations"].dtype == np.float16
    assert packed["correlations"].shape == (24 * 23 // 2,)
    back = unpack(packed)
    assert back.count == 400
    assert np.allclose(back.mean, whole.mean, rtol=1e-6)
    scale = np.sqrt(np.outer(np.diag(whole.covariance), np.diag(whole.covariance)))
    assert np.abs(back.covariance - whole.covariance).max() <= 1e-3 * scale.max()
    assert abs(frechet_distance(back, whole)) < 1e-3 * np.trace(whole.covariance)


def test_one_picture_has_no_distance() -> None:
    with pytest.raises(UsageError, match="two pictures or more"):
        moments(np.zeros((1, 24)))

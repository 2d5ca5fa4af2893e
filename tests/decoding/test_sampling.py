"""Probabilities and keyed draws: docs/method.md section 1; docs/reports.md A1, A2, A9, B3, B4."""

import math

import pytest
import torch

from mulo_ray.decoding.sampling import Sampling, draw, guide, gumbel, log_probabilities, sample


def test_guidance_follows_the_formula_at_every_scale():
    """reports A9: 0 and 0.5 are not silently 1, and 1 is the conditional model exactly."""
    c, u = torch.tensor([[1.0, 2.0, -1.0]]), torch.tensor([[0.5, -1.0, 3.0]])
    for s in (0.0, 0.5, 1.0001, 7.5):
        torch.testing.assert_close(guide(c, u, s), u + s * (c - u))
    assert torch.equal(guide(c, None, 1.0), c)


def test_greedy_is_one_hot():
    """reports A1: at temperature 0 both sides see a one-hot, never the raw softmax."""
    logp = log_probabilities(torch.tensor([[0.1, 0.3, 0.2]]), Sampling(temperature=0.0))
    assert logp.tolist() == [[-math.inf, 0.0, -math.inf]]


def test_filters_keep_what_the_definitions_say():
    """reports A2, and as LlamaGen does: top-k keeps ties at the k-th value, top-p keeps the entry that crosses p."""
    logits = torch.tensor([[4.0, 3.0, 3.0, 1.0, 0.0]])
    kept = log_probabilities(logits, Sampling(top_k=2)) > -math.inf
    assert kept.tolist() == [[True, True, True, False, False]]
    p = torch.tensor([[0.5, 0.3, 0.1, 0.1]]).log()
    assert (log_probabilities(p, Sampling(top_p=0.6)) > -math.inf).tolist() == [[True, True, False, False]]
    assert (log_probabilities(p, Sampling(top_p=1e-9)) > -math.inf).tolist() == [[True, False, False, False]]
    torch.testing.assert_close(log_probabilities(p, Sampling(temperature=0.5)).exp().sum(-1), torch.ones(1))


def test_draws_follow_the_distribution():
    """Chi-square of 40,000 keyed draws over 5 codes; false alarm 1e-6 (critical value 33.4 for 4 degrees)."""
    p = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05])
    n = 40_000
    logp = p.log().expand(n, 5)

    def chi_square(tokens):
        counts = torch.bincount(tokens, minlength=5).double()
        return float(((counts - n * p) ** 2 / (n * p)).sum())

    tokens = draw(logp, gumbel(torch.arange(n), 16, torch.full((n,), 3), 5))
    assert chi_square(tokens) < 33.4
    skewed = draw(logp * 0.9, gumbel(torch.arange(n), 16, torch.full((n,), 3), 5))
    assert chi_square(skewed) > 33.4, "a wrong rule must be caught"


@pytest.mark.parametrize("change", ["seed", "side", "cell", "attempt"])
def test_noise_depends_on_every_part_of_its_key(change):
    base = {"seed": 5, "side": 8, "cell": 3, "attempt": 0}
    other = {**base, change: base[change] + 1}

    def noise(seed, side, cell, attempt):
        return gumbel(torch.tensor([seed]), side, torch.tensor([cell]), 512, attempt)

    a, b = noise(**base), noise(**other)
    assert torch.equal(a, noise(**base))
    assert abs(float(torch.corrcoef(torch.cat([a, b]))[0, 1])) < 0.2


def test_noise_is_standard_gumbel():
    """Mean 0.5772 and variance 1.6449 within five standard errors of a million values."""
    noise = gumbel(torch.arange(1000), 16, torch.arange(1000), 1000).double()
    assert abs(float(noise.mean()) - 0.5772) < 5 * 1.2825 / 1000
    assert abs(float(noise.var()) - 1.6449) < 0.03
    assert torch.isfinite(noise).all()


def test_samples_of_one_prompt_draw_their_own_first_token():
    """reports B4: false alarm (1/256)^15."""
    tokens = sample(torch.zeros(16, 256), Sampling(), torch.arange(16) * 7919, 8, torch.zeros(16, dtype=torch.int64))
    assert len(set(tokens.tolist())) > 1


def test_temperature_one_is_honoured():
    """reports A9: three equal tokens, 300 draws, all three appear."""
    tokens = sample(torch.zeros(300, 3), Sampling(), torch.arange(300), 8, torch.zeros(300, dtype=torch.int64))
    assert set(tokens.tolist()) == {0, 1, 2}


def test_a_filtered_entry_is_never_drawn():
    logits = torch.tensor([[0.0, 0.0, 5.0]]).expand(2000, 3)
    tokens = sample(logits, Sampling(top_k=1), torch.arange(2000), 8, torch.zeros(2000, dtype=torch.int64))
    assert set(tokens.tolist()) == {2}

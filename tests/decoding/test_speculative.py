"""The ratio rule (docs/method.md section 5): oracle 4 on table models; docs/reports.md A1, A2, A3, A5, A6, A9, A10."""

import pytest
import torch

from mulo_ray.decoding import speculative
from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.interfaces import Request, generate
from mulo_ray.decoding.sampling import Sampling, log_probabilities
from mulo_ray.decoding.speculative import SpeculativeTarget
from tests.support.table import TableScale, constant, random_table, table_request
from tests.support.tiny import request, tiny

GREEDY = Sampling(temperature=0.0)
FILTERED = Sampling(temperature=0.7, top_k=3, top_p=0.9)
Q, P = [0.6, 0.1, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.2, 0.2]
IMAGES = 20_000
CRITICAL = 23.5  # chi-square with 4 degrees of freedom: exceeded by a right rule once in 10,000 tests


def decode(target, drafter, req, sampling, chain):
    return generate(SpeculativeTarget(target, drafter, sampling, chain=chain), None, req)


def chi_square(tokens, p):
    """Over the codes that can occur; infinite when another one does."""
    counts = torch.bincount(tokens, minlength=len(p)).double()
    if bool((counts[p == 0] > 0).any()):
        return float("inf")
    expected = len(tokens) * p[p > 0].double()
    return float(((counts[p > 0] - expected) ** 2 / expected).sum())


def worst_chi_square(sampling):
    """Of the first and the fourth cell of 20,000 images, chain 3."""
    target, drafter = constant(P, cells=4), constant(Q, cells=4)
    tokens = decode(target, drafter, table_request(IMAGES, labels=1), sampling, 3).tokens_BHW.flatten(1)
    p = log_probabilities(torch.tensor([P]).log(), sampling).exp()[0]
    return max(chi_square(tokens[:, cell], p) for cell in (0, 3))


@pytest.mark.parametrize("sampling", [Sampling(), FILTERED])
def test_cells_follow_the_targets_distribution(sampling):
    """Oracle 4; reports A3: filters off and on; four tests of a right rule, false alarm 4e-4 in all, fixed seeds."""
    assert worst_chi_square(sampling) < CRITICAL


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("accept_ratio", lambda logp, logq, u: logp >= logq),  # by comparison
        ("accept_ratio", lambda logp, logq, u: u.log() < logp),  # as if q were one
        ("residual", lambda logp, logq: logp),  # the target itself instead of the rest
    ],
)
def test_wrong_rules_are_caught(name, wrong, monkeypatch):
    """reports A3, A4: each of these looks fine and is biased."""
    monkeypatch.setattr(speculative, name, wrong)
    assert worst_chi_square(Sampling()) > CRITICAL


@pytest.mark.parametrize("chain", [1, 3])
def test_greedy_is_the_targets_greedy(chain):
    """reports A1: the drafter's favourite has 20 %, 30 % under the target, whose own favourite has 50 %."""
    target, drafter = constant([0.3, 0.5, 0.1, 0.05, 0.05]), constant([0.2, 0.19, 0.19, 0.19, 0.23])
    assert set(decode(target, drafter, table_request(2, 1), GREEDY, chain).tokens_BHW.flatten().tolist()) == {1}


def test_greedy_equals_plain_decoding_on_fifty_pairs():
    """reports A1: 50 random pairs, 64 cells: one table per label, so that one batch holds them all."""
    target, drafter = random_table(0, labels=51), random_table(1, labels=51)
    req = table_request(50, labels=50)
    plain = generate(AutoregressiveTarget(target, GREEDY), None, req).tokens_BHW
    for chain in (1, 4):
        assert torch.equal(decode(target, drafter, req, GREEDY, chain).tokens_BHW, plain)


def test_both_sides_take_their_probabilities_from_one_function(monkeypatch):
    """reports A2: the same function, the same settings, and the very tensor that was drawn from goes into the ratio."""
    seen, drawn_from, ratios = [], [], []
    real, real_accept, real_draw = log_probabilities, speculative.accept_ratio, speculative.draw
    monkeypatch.setattr(speculative, "log_probabilities", lambda x, s: seen.append(s) or real(x, s))
    monkeypatch.setattr(speculative, "accept_ratio", lambda p, q, u: ratios.append(q) or real_accept(p, q, u))
    monkeypatch.setattr(speculative, "draw", lambda p, noise: drawn_from.append(p) or real_draw(p, noise))
    table = torch.tensor([2.001, 2.0, 1.999]).bfloat16().expand(1, 4, 3, 3)
    model = TableScale(table.contiguous())
    decode(model, model, table_request(1, 1), FILTERED, 1)
    assert set(seen) == {FILTERED}
    assert {p.dtype for p in drawn_from} == {torch.float32}
    assert ratios[0].item() in drawn_from[0].flatten().tolist()


@pytest.mark.parametrize(("chain", "passes"), [(1, 32), (2, 22), (3, 16), (7, 8)])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(guidance=2.0)])
def test_a_drafter_equal_to_its_target_is_always_right(chain, passes, sampling):
    """reports A5: acceptance of exactly 100 %, and the prefill besides the passes."""
    pair, req = tiny(), request(2)
    got = decode(pair.scale("high"), pair.scale("high"), req, sampling, chain)
    assert [image.forwards_target for image in got.stats] == [1 + passes] * 2
    assert all(image.rejected == 0 for image in got.stats)
    if sampling.greedy:
        assert torch.equal(
            got.tokens_BHW, generate(AutoregressiveTarget(pair.scale("high"), sampling), None, req).tokens_BHW
        )


@pytest.mark.parametrize("chain", [0, 1, 3])
def test_caches_equal_caches_built_from_scratch(chain):
    """Oracle 5; reports A5: both caches, after rounds that keep all, some and none; a chain of 0 is plain decoding."""
    pair, other, req = tiny(), tiny(9), request(3)
    target = SpeculativeTarget(pair.scale("high"), other.scale("high"), Sampling(temperature=0.5), chain=chain)
    target.begin(0, req)
    target.advance(0, None)
    state, drafter = target._slots[0]
    assert 0 <= int(state.counts["accepted"].sum()) < 3 * 63
    for canvas in (state.canvas, drafter)[: 2 if chain else 1]:
        canvas.place_rows(0, state.canvas.grid_BHW())
        canvas.stale_BN[:, : -2 - chain] = False  # all but the newest cells must be right already
        canvas.settle()
        fresh = type(canvas)(canvas.scale, req, canvas.sampling)
        fresh.place_rows(0, state.canvas.grid_BHW())
        fresh.settle()
        for layer in range(2):
            assert torch.equal(canvas.cache.kv.keys_RSAD[layer], fresh.cache.kv.keys_RSAD[layer])
            assert torch.equal(canvas.cache.kv.values_RSAD[layer], fresh.cache.kv.values_RSAD[layer])


def test_an_image_is_the_same_alone_and_in_any_batch():
    """Oracle 6; reports A6, A10: rows at their own pace, alone, moved, and on a target that served others before."""
    pair, other, req = tiny(), tiny(9), request(5)
    target = SpeculativeTarget(
        pair.scale("high"), other.scale("high"), Sampling(guidance=2.0, temperature=2.0), chain=4
    )
    together = generate(target, None, req)
    assert len({image.forwards_target for image in together.stats}) > 1, "images accept different lengths"
    for i in (0, 4):
        assert torch.equal(generate(target, None, request(1, first=i)).tokens_BHW[0], together.tokens_BHW[i])
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = Request(condition={"labels": req.condition["labels"][order]}, seeds_B=req.seeds_B[order])
    assert torch.equal(generate(target, None, moved).tokens_BHW, together.tokens_BHW[order])


def test_temperature_is_honoured():
    """reports A9: three equal codes at temperature 1: all appear."""
    model = constant([1 / 3] * 3)
    tokens = decode(model, model, table_request(20, 1), Sampling(), 3).tokens_BHW
    assert set(tokens.flatten().tolist()) == {0, 1, 2}

"""Exact verification (docs/method.md section 5): oracles 4, 6 and 7, on random models and any draft."""

import functools

import pytest
import torch

from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.exact import ExactOptions, ExactTarget, confirm
from mulo_ray.decoding.interfaces import Request, generate
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.models.rescaler import NearestResampler, PixelResampler
from tests.support.tiny import request, tiny

GUIDED = Sampling(guidance=3.0)


def exact(pair, sampling, *, rows=4, window=0, renew=True, resampler=None):
    options = ExactOptions(rows_per_cycle=rows, verify_window=window, renew=renew)
    return ExactTarget(pair.scale("high"), sampling, resampler or PixelResampler(pair.vq, 2), options)


@functools.cache
def plain_tokens(sampling, batch, seed):
    return generate(AutoregressiveTarget(tiny().scale("high"), sampling), None, request(batch, seed)).tokens_BHW


class Scripted:
    """A resampler that lifts to given tokens, whatever the draft; its codes mean the same on both grids."""

    ratio = 2

    def __init__(self, lifted_BHW):
        self.lifted_BHW = lifted_BHW

    def up(self, tokens_BHW):
        return self.lifted_BHW

    def down(self, tokens_BHW):
        return NearestResampler(2).down(tokens_BHW)


@pytest.mark.parametrize(
    "sampling", [Sampling(), GUIDED, Sampling(temperature=0.0), Sampling(guidance=2.0, top_k=9, top_p=0.8)]
)
@pytest.mark.parametrize(("rows", "window", "renew"), [(4, 0, True), (4, 5, True), (1, 7, False), (2, 1, True)])
def test_tokens_are_those_of_plain_decoding(sampling, rows, window, renew):
    """Oracle 4; docs/reports.md A1, A3, A6: any draft, rows per cycle and window, images at paces of their own."""
    pair, req = tiny(), request(5, seed=3)
    got = generate(exact(pair, sampling, rows=rows, window=window, renew=renew), pair.drafter(sampling, rows=rows), req)
    assert torch.equal(got.tokens_BHW, plain_tokens(sampling, 5, 3))
    assert all(image.accepted + image.resampled == 64 and image.depth < 64 for image in got.stats)


def test_keeping_every_likely_guess_is_caught():
    """Oracle 4's wrong rule: the threshold of `mulo` in place of the cell's own draw is not plain decoding."""
    pair, req = tiny(), request(5, seed=3)
    got = generate(pair.target(GUIDED, tau=0.02, radius=0), pair.drafter(GUIDED), req)
    assert not torch.equal(got.tokens_BHW, plain_tokens(GUIDED, 5, 3))


def test_draws_after_a_mismatch_are_not_final(monkeypatch):
    """Oracle 4's other wrong rule: one forward of Jacobi decoding taken for the truth."""

    def once(canvas, final_B, end, window, *, renew):
        right_B = confirm(canvas, final_B, end, window, renew=renew)
        final_B.fill_(end)
        return right_B

    pair, req = tiny(), request(3, seed=3)
    monkeypatch.setattr("mulo_ray.decoding.exact.confirm", once)
    got = generate(exact(pair, GUIDED), pair.drafter(GUIDED), req)
    assert not torch.equal(got.tokens_BHW, plain_tokens(GUIDED, 5, 3)[:3])


def test_a_perfect_draft_takes_one_forward_a_window_and_rows_differ():
    """Oracle 7 and reports A6: drafts right in all, in none but the first 21, and in every other cell of three rows."""
    pair, req = tiny(), request(3, seed=5)
    truth = plain_tokens(GUIDED, 3, 5).flatten(1)
    draft = truth.clone()
    draft[1, 21:] = (truth[1, 21:] + 1) % 64
    draft[2, ::2] = (truth[2, ::2] + 1) % 64
    target = exact(pair, GUIDED, window=8, renew=False, resampler=Scripted(draft.view(3, 8, 8)))
    got = generate(target, pair.drafter(GUIDED), req)
    assert torch.equal(got.tokens_BHW.flatten(1), truth)
    # eight windows; two windows, five cells and a replaced one, then 42 replaced; a replaced one, then two at a time
    assert [image.forwards_target for image in got.stats] == [1 + 8, 1 + 2 + 1 + 42, 1 + 1 + 32]
    assert [image.accepted for image in got.stats] == [64, 21, 32]
    assert torch.equal(got.rejected_BHW.flatten(1), draft != truth)
    for i in range(3):
        alone = exact(pair, GUIDED, window=8, renew=False, resampler=Scripted(draft[i : i + 1].view(1, 8, 8)))
        single = generate(alone, pair.drafter(GUIDED), request(1, seed=5, first=i))
        assert torch.equal(single.tokens_BHW.flatten(), truth[i])
        assert single.stats[0].forwards_target == got.stats[i].forwards_target


def test_an_image_is_the_same_alone_and_in_any_batch_at_any_place():
    """Oracle 6; reports A6: also its costs."""
    pair, req = tiny(), request(6)
    together = generate(exact(pair, GUIDED, window=6), pair.drafter(GUIDED), req)
    order = torch.tensor([4, 0, 2, 5, 1, 3])
    moved = Request(condition={"labels": req.condition["labels"][order]}, seeds_B=req.seeds_B[order])
    shuffled = generate(exact(pair, GUIDED, window=6), pair.drafter(GUIDED), moved)
    assert torch.equal(shuffled.tokens_BHW, together.tokens_BHW[order])
    assert [image.forwards_target for image in shuffled.stats] == [
        together.stats[i].forwards_target for i in order.tolist()
    ]
    assert len({tuple(image.flatten().tolist()) for image in together.tokens_BHW}) == 6

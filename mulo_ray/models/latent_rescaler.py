"""Learned up- and down-samplers between two scales: codebook vectors through a small convolutional network to the
nearest codebook entries (docs/method.md section 3). Knows no transformer and no pixels.

Shape letters: B images, H W target cells, h w drafter cells, D code dimension, C channels, V codebook entries.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.models.vq import Residual

_SHARPNESS = 10.0
"""Scale of cosines as logits: a codebook entry at angle 0 has e^10 times the weight of one at a right angle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentRescalerConfig:
    """Sizes of the pair of networks; `ratio` cells per side of a drafter cell."""

    ratio: int
    code_dim: int = 8
    channels: int = 64
    blocks: int = 3


class LatentRescaler(nn.Module):
    """U_r and D_r: pixel-shuffle between residual blocks at both grids."""

    def __init__(self, config: LatentRescalerConfig) -> None:
        super().__init__()
        self.config = config
        wide, area = config.channels, config.ratio**2
        self.up_network = nn.Sequential(
            nn.Conv2d(config.code_dim, wide, 3, padding=1),
            *(Residual(wide) for _ in range(config.blocks)),
            nn.Conv2d(wide, wide * area, 1),
            nn.PixelShuffle(config.ratio),
            *(Residual(wide) for _ in range(config.blocks)),
            nn.Conv2d(wide, config.code_dim, 3, padding=1),
        )
        self.down_network = nn.Sequential(
            nn.PixelUnshuffle(config.ratio),
            nn.Conv2d(config.code_dim * area, wide, 3, padding=1),
            *(Residual(wide) for _ in range(config.blocks)),
            nn.Conv2d(wide, config.code_dim, 3, padding=1),
        )

    def up_vectors(self, vectors_BhwD: Tensor) -> Tensor:
        """Unit codebook vectors (B, h, w, D) -> unit vectors (B, H, W, D) to be quantised."""
        return _apply(self.up_network, vectors_BhwD)

    def down_vectors(self, vectors_BHWD: Tensor) -> Tensor:
        """Unit codebook vectors (B, H, W, D) -> unit vectors (B, h, w, D) to be quantised."""
        return _apply(self.down_network, vectors_BHWD)


def code_logits(vectors_BHWD: Tensor, codebook_VD: Tensor) -> Tensor:
    """(B, H, W, V): scaled cosines to every codebook entry; their argmax is the nearest entry."""
    return _SHARPNESS * F.linear(vectors_BHWD, F.normalize(codebook_VD, dim=-1))


class LatentResampler:
    """A trained LatentRescaler as a `decoding.interfaces.Resampler`; one image at a time, so no batch changes a bit."""

    def __init__(self, network: LatentRescaler, codebook_VD: Tensor) -> None:
        self._network, self._codebook_VD = network, F.normalize(codebook_VD, dim=-1)
        self.ratio = network.config.ratio

    @torch.inference_mode()
    def up(self, tokens_BHW: Tensor) -> Tensor:
        return torch.cat([self._nearest(self._network.up_vectors(self._vectors(one))) for one in tokens_BHW.split(1)])

    @torch.inference_mode()
    def down(self, tokens_BHW: Tensor) -> Tensor:
        return torch.cat([self._nearest(self._network.down_vectors(self._vectors(one))) for one in tokens_BHW.split(1)])

    def _vectors(self, tokens_BHW: Tensor) -> Tensor:
        return self._codebook_VD[tokens_BHW]

    def _nearest(self, vectors_BHWD: Tensor) -> Tensor:
        return F.linear(vectors_BHWD, self._codebook_VD).argmax(-1)


def _apply(network: nn.Sequential, vectors_BHWD: Tensor) -> Tensor:
    return F.normalize(network(vectors_BHWD.permute(0, 3, 1, 2)).permute(0, 2, 3, 1), dim=-1)

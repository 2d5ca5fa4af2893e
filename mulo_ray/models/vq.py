"""The embedded family's VQ tokenizer: stride 8, l2-normalised codebook, fully convolutional.

Shape letters: B images, H W cells, C channels. Pixels are float in [0, 1]. Knows nothing of scales or prompts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STRIDE = 8
_UNSHUFFLE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class VQConfig:
    """Sizes of the network; 3.23 M parameters by default."""

    codebook_size: int = 1024
    code_dim: int = 8
    wide: int = 64  # channels at a quarter of the image side
    deep: int = 128  # channels at an eighth
    blocks: int = 2  # at a quarter
    encoder_blocks: int = 3  # at an eighth, where they are cheap and see far
    decoder_blocks: int = 5


class Norm(nn.Module):
    """RMS over the channels of each position: local, so a picture's corner does not change its other corner."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5) * self.weight[:, None, None]


class Residual(nn.Module):
    """x + two 3 x 3 convolutions of the normalised x."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = Norm(channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(F.silu(self.conv1(F.silu(self.norm(x)))))  # type: ignore[no-any-return]


class VQ(nn.Module):
    """Pixels <-> codebook indices."""

    def __init__(self, config: VQConfig | None = None) -> None:
        super().__init__()
        config = config or VQConfig()
        self.config = config
        pixels = 3 * _UNSHUFFLE**2
        self.encoder = nn.Sequential(
            nn.PixelUnshuffle(_UNSHUFFLE),
            nn.Conv2d(pixels, config.wide, 3, padding=1),
            *(Residual(config.wide) for _ in range(config.blocks)),
            nn.Conv2d(config.wide, config.deep, 4, stride=2, padding=1),
            *(Residual(config.deep) for _ in range(config.encoder_blocks)),
            Norm(config.deep),
            nn.Conv2d(config.deep, config.code_dim, 1),
        )
        self.codebook = nn.Parameter(F.normalize(torch.randn(config.codebook_size, config.code_dim), dim=-1))
        self.decoder = nn.Sequential(
            nn.Conv2d(config.code_dim, config.deep, 3, padding=1),
            *(Residual(config.deep) for _ in range(config.decoder_blocks)),
            nn.Conv2d(config.deep, config.wide * 4, 3, padding=1),
            nn.PixelShuffle(2),
            *(Residual(config.wide) for _ in range(config.blocks + 1)),
            Norm(config.wide),
            nn.Conv2d(config.wide, pixels, 3, padding=1),
            nn.PixelShuffle(_UNSHUFFLE),
        )

    def embed(self, pixels_BCHW: Tensor) -> Tensor:
        """Unit vectors (B, H, W, D) before quantisation; the image side must be a multiple of 8."""
        return F.normalize(self.encoder(pixels_BCHW * 2 - 1).permute(0, 2, 3, 1), dim=-1)

    def nearest(self, vectors_BHWD: Tensor) -> Tensor:
        """Index of the nearest codebook entry (largest cosine) of each unit vector."""
        return F.linear(vectors_BHWD, F.normalize(self.codebook, dim=-1)).argmax(-1)

    def encode(self, pixels_BCHW: Tensor) -> Tensor:
        """Pixels (B, 3, 8H, 8W) in [0, 1] -> tokens (B, H, W)."""
        return self.nearest(self.embed(pixels_BCHW))

    def decode_vectors(self, vectors_BHWD: Tensor) -> Tensor:
        """Codebook vectors -> pixels, unclamped."""
        return (self.decoder(vectors_BHWD.permute(0, 3, 1, 2)) + 1) / 2  # type: ignore[no-any-return]

    def decode(self, tokens_BHW: Tensor) -> Tensor:
        """Tokens (B, H, W) -> pixels (B, 3, 8H, 8W) clamped to [0, 1]."""
        return self.decode_vectors(F.normalize(self.codebook, dim=-1)[tokens_BHW]).clamp(0, 1)

"""What a learned up-sampler can be trained on (docs/method.md section 3): tokens, pixels, a discriminator, the target.

Shape letters: B images, H W target cells, D code dimension, V codebook entries. Knows no data.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.models.latent_rescaler import code_logits
from mulo_ray.models.vq import VQ

LossName = Literal["tokens", "pixels", "adversarial", "distil"]
Teacher = Callable[[Tensor, Tensor], Tensor]
"""(condition ids (B, P, G), tokens (B, N)) -> the target's logits (B, N, V) of every cell."""

_PIXELS, _PERCEPTUAL, _COMMITMENT, _ADVERSARIAL = 10.0, 0.1, 0.1, 0.05


def token_loss(vectors_BHWD: Tensor, tokens_BHW: Tensor, codebook_VD: Tensor) -> Tensor:
    """Cross-entropy to the tokens of the picture at the other size."""
    return F.cross_entropy(code_logits(vectors_BHWD, codebook_VD).flatten(0, 2), tokens_BHW.flatten())


def quantise(vectors_BHWD: Tensor, codebook_VD: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest unit codebook vectors with straight-through gradients, and the commitment to them."""
    codes = F.normalize(codebook_VD, dim=-1)[code_logits(vectors_BHWD, codebook_VD).argmax(-1)]
    return vectors_BHWD + (codes - vectors_BHWD).detach(), (vectors_BHWD - codes).square().sum(-1).mean()


def pixel_loss(vectors_BHWD: Tensor, tokens_BHW: Tensor, vq: VQ, perceptual: nn.Module | None) -> tuple[Tensor, Tensor]:
    """MSE (and perceptual distance) to the decoded true tokens, plus commitment; the decoded pixels as well."""
    chosen, commitment = quantise(vectors_BHWD, vq.codebook)
    pixels = vq.decode_vectors(chosen)
    with torch.no_grad():
        wanted = vq.decode(tokens_BHW)
    loss = _PIXELS * F.mse_loss(pixels, wanted) + _COMMITMENT * commitment
    if perceptual is not None:
        loss = loss + _PERCEPTUAL * perceptual(pixels.clamp(0, 1), wanted)
    return loss, pixels


def distil_loss(vectors_BHWD: Tensor, ids: Tensor, codebook_VD: Tensor, teacher: Teacher) -> Tensor:
    """Cross-entropy to the target's own distributions on the proposed grid: what verification will ask for."""
    logits = code_logits(vectors_BHWD, codebook_VD)
    with torch.no_grad():
        wanted = teacher(ids, logits.argmax(-1).flatten(1)).softmax(-1)
    return F.cross_entropy(logits.flatten(0, 2), wanted.flatten(0, 1))


class PatchCritic(nn.Module):
    """PatchGAN: a map of real-or-not scores, one per patch of 16 x 16 pixels."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(3, channels, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(channels, 2 * channels, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * channels, 1, 4, 1, 1),
        )

    def forward(self, pixels_BCHW: Tensor) -> Tensor:
        return self.network(pixels_BCHW * 2 - 1)  # type: ignore[no-any-return]

    def loss(self, real: Tensor, made: Tensor) -> Tensor:
        """Hinge loss of the critic itself."""
        return F.relu(1 - self(real)).mean() + F.relu(1 + self(made)).mean()

    def penalty(self, made: Tensor) -> Tensor:
        """What the up-sampler pays for being told apart."""
        scores: Tensor = self(made)
        return -_ADVERSARIAL * scores.mean()

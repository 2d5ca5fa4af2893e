"""Perceptual distances that an up-sampler may be trained on: features of the packaged efficientnet-lite0, or LPIPS.

Zhang et al., arXiv 1801.03924: unit feature vectors of several depths, squared differences summed over channels and
averaged over places. Knows no tokens.
"""

import copy
import importlib
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.errors import UsageError
from mulo_ray.models.lite0 import load_network

PerceptualName = Literal["none", "lite0", "lpips"]

_DEPTHS = (0, 2, 4, 7)
"""Blocks of efficientnet-lite0 whose outputs are compared: 1/2, 1/4, 1/8 and 1/16 of the picture's side."""


def perceptual_distance(name: PerceptualName) -> nn.Module | None:
    """The distance of that name: (pixels made, pixels wanted), both (B, 3, h, w) in [0, 1] -> a scalar.

    Gradients reach the first. Raises UsageError where the packages it needs are missing.
    """
    return None if name == "none" else Lite0Distance() if name == "lite0" else LpipsDistance()


class Lite0Distance(nn.Module):
    """The distance on features of efficientnet-lite0, which the extra `eval` brings."""

    def __init__(self) -> None:
        super().__init__()
        self.network: Any = copy.deepcopy(load_network())

    def forward(self, made: Tensor, wanted: Tensor) -> Tensor:
        with torch.no_grad():
            theirs = self._maps(wanted)
        return torch.stack(
            [(a - b).square().sum(1).mean() for a, b in zip(self._maps(made), theirs, strict=True)]
        ).sum()

    def _maps(self, pixels: Tensor) -> list[Tensor]:
        x = ((pixels * 255 - 127) / 128).contiguous(memory_format=torch.channels_last)
        x = self.network._swish(self.network._bn0(self.network._conv_stem(x)))
        found = []
        for depth, block in enumerate(self.network._blocks[: max(_DEPTHS) + 1]):
            x = block(x)
            if depth in _DEPTHS:
                found.append(F.normalize(x, dim=1))
        return found


class LpipsDistance(nn.Module):
    """LPIPS itself, where its package and torchvision are installed; its weights are fetched on first use."""

    def __init__(self) -> None:
        super().__init__()
        try:
            lpips: Any = importlib.import_module("lpips")
        except ImportError as error:
            raise UsageError(
                f"--perceptual lpips needs the package lpips, and torchvision with it ({error}): install both, or use "
                "lite0"
            ) from error
        self.network: Any = lpips.LPIPS(net="vgg", verbose=False).requires_grad_(False).eval()

    def forward(self, made: Tensor, wanted: Tensor) -> Tensor:
        return self.network(made, wanted, normalize=True).mean()  # type: ignore[no-any-return]

"""Up- and down-samplers between two scales that share a tokenizer (docs/method.md section 3). Training-free ones.

Shape letters: B images, H W target cells, h w drafter cells. Knows no transformer.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class PixelCodec(Protocol):
    """A VQ tokenizer: tokens (B, H, W) <-> pixels (B, 3, px, px) in [0, 1]."""

    def encode(self, pixels_BCHW: Tensor) -> Tensor: ...

    def decode(self, tokens_BHW: Tensor) -> Tensor: ...


class PixelResampler:
    """VQ-decode, resize, VQ-encode; bicubic up, area down. One image at a time, so that no batch changes a bit."""

    def __init__(self, vq: PixelCodec, ratio: int) -> None:
        self._vq, self.ratio = vq, ratio

    @torch.inference_mode()
    def up(self, tokens_BHW: Tensor) -> Tensor:
        return torch.cat([self._up(image_1HW) for image_1HW in tokens_BHW.split(1)])

    @torch.inference_mode()
    def down(self, tokens_BHW: Tensor) -> Tensor:
        return torch.cat(
            [self._vq.encode(F.avg_pool2d(self._vq.decode(one), self.ratio)) for one in tokens_BHW.split(1)]
        )

    def _up(self, tokens_1HW: Tensor) -> Tensor:
        pixels = self._vq.decode(tokens_1HW)
        lifted = F.interpolate(pixels, scale_factor=self.ratio, mode="bicubic", align_corners=False)
        return self._vq.encode(lifted.clamp(0, 1))


class NearestResampler:
    """Every drafter token r * r times; down takes the commonest token of each r * r block. The ablation's floor."""

    def __init__(self, ratio: int) -> None:
        self.ratio = ratio

    def up(self, tokens_BHW: Tensor) -> Tensor:
        return tokens_BHW.repeat_interleave(self.ratio, 1).repeat_interleave(self.ratio, 2)

    def down(self, tokens_BHW: Tensor) -> Tensor:
        r = self.ratio
        blocks = tokens_BHW.unfold(1, r, r).unfold(2, r, r).flatten(3)
        return blocks.sort(-1).values.mode(-1).values

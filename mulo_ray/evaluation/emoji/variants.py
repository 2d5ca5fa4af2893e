"""Views of a picture that still show its concept: what the judge is trained on besides the pictures as they are.

Mirrored only where a mirror image shows the same; moved, scaled, blurred as by a tokenizer, tinted a little. Knows no
network and no file.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def vary(pictures: np.ndarray, mirrors: Sequence[bool], seed: int) -> np.ndarray:
    """One random view of each picture (n, s, s, 3) uint8; `mirrors`: which may be flipped. Same seed, same views."""
    rng = np.random.default_rng(seed)
    views = []
    for picture, may_flip in zip(pictures, mirrors, strict=True):
        x = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float()
        if may_flip and rng.random() < 0.5:
            x = x.flip(3)
        x = _moved(x, zoom=float(rng.uniform(0.82, 1.12)), shift=rng.uniform(-0.06, 0.06, 2))
        if rng.random() < 0.6:
            x = _coarse(x, int(x.shape[-1] * rng.uniform(0.25, 0.7)))
        x = x + torch.from_numpy(rng.normal(0, 5, (1, 3, 1, 1)).astype(np.float32))
        views.append(x.clamp(0, 255).round().byte()[0].permute(1, 2, 0).numpy())
    return np.stack(views)


def _moved(x: Tensor, zoom: float, shift: np.ndarray) -> Tensor:
    """Scaled by `zoom` and moved by `shift` of a side, on white."""
    matrix = torch.tensor([[[1 / zoom, 0, float(shift[0])], [0, 1 / zoom, float(shift[1])]]])
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
    return 255 - F.grid_sample(255 - x, grid, mode="bilinear", align_corners=False)


def _coarse(x: Tensor, side: int) -> Tensor:
    """Detail below `side` pixels lost."""
    small = F.interpolate(x, size=side, mode="bilinear", antialias=True, align_corners=False)
    return F.interpolate(small, size=x.shape[-1], mode="bicubic", align_corners=False)

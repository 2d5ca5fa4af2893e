"""Shapes on a token grid: growing a set of cells, splitting it into islands. Pure functions; know no model.

Shape letters: B images, H W rows and columns of a block. Masks are bool.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def expand(rejected_BHW: Tensor, radius: int) -> Tensor:
    """R_X: every cell within `radius` (Chebyshev) of a rejected one, clipped to the block and to cells from the first
    rejected one on in raster order (docs/method.md section 2)."""
    grown_BHW = F.max_pool2d(rejected_BHW.float(), 2 * radius + 1, stride=1, padding=radius) > 0
    return grown_BHW & from_first(rejected_BHW)


def from_first(rejected_BHW: Tensor) -> Tensor:
    """Cells from the first rejected one on, in raster order; none where nothing is rejected."""
    return (rejected_BHW.flatten(1).cumsum(1) > 0).view_as(rejected_BHW)


def islands(mask_BHW: Tensor) -> Tensor:
    """Label 8-connected components: 0 outside, else one more than the island's last cell, in raster order."""
    cells = mask_BHW[0].numel()
    labels_BHW = torch.arange(1, cells + 1, device=mask_BHW.device).view(1, *mask_BHW.shape[1:]) * mask_BHW
    while True:
        spread_BHW = F.max_pool2d(labels_BHW.double(), 3, stride=1, padding=1).long() * mask_BHW
        if torch.equal(spread_BHW, labels_BHW):
            return labels_BHW
        labels_BHW = spread_BHW


def count_islands(labels_BHW: Tensor) -> Tensor:
    """How many islands `islands` labelled in each image, (B,): each has one cell that its label is the number of."""
    own_N = torch.arange(1, labels_BHW[0].numel() + 1, device=labels_BHW.device)
    return (labels_BHW.flatten(1) == own_N).sum(1)

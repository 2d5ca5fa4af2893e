"""The ZipAR schedule on any set of cells: which cells can be drawn in the same forward (docs/method.md section 4).

A schedule is a level per cell: cells of level n are drawn together, after all of level n - 1. It depends on the set
and the window only, never on tokens. Shape letters: B images, I islands, H W block rows and columns.
"""

import torch
from torch import Tensor


def levels(labels_BHW: Tensor, window: int) -> Tensor:
    """Level (1, 2, ...) of every labelled cell, 0 elsewhere. Islands of one image advance independently.

    Cell (i, j) waits for its island's cells left of it in row i, and for those of row i - n in columns up to
    j + n * (window - 1), clipped at the row end. A window of 0, or of a row's width, is plain raster order.
    """
    height, width = labels_BHW.shape[1:]
    window = window if 0 < window < width else width
    image_I, label_I = _every_island(labels_BHW)
    mask_IHW = labels_BHW[image_I] == label_I[:, None, None]
    levels_IHW = torch.zeros_like(mask_IHW, dtype=torch.int64)
    reach_W = (torch.arange(width, device=labels_BHW.device) + window - 1).clamp(max=width - 1)
    above_IW = torch.zeros_like(levels_IHW[:, 0])  # highest level a cell at or left of each column leaves behind
    for row in range(height):
        mask_IW = mask_IHW[:, row]
        waits_IW = above_IW[:, reach_W]
        count_IW = mask_IW.cumsum(1)
        # level = 1 + max(left neighbour's level, waits): a running maximum once the count of cells is taken out
        base_IW = torch.where(mask_IW, waits_IW - count_IW + 1, -height * width).cummax(1).values
        levels_IHW[:, row] = torch.where(mask_IW, base_IW + count_IW, 0)
        # a row without cells of the island still passes the shifted wait on
        above_IW = torch.maximum(levels_IHW[:, row].cummax(1).values, above_IW[:, reach_W])
    out_BHW = torch.zeros_like(labels_BHW)
    return out_BHW.index_add_(0, image_I, levels_IHW)


def zipar_forwards(height: int, width: int, window: int) -> int:
    """Forwards of a whole grid, the first cell's prefill included: W + (H - 1) * s (s from 1 to W)."""
    return width + (height - 1) * (window if 0 < window < width else width)


def _every_island(labels_BHW: Tensor) -> tuple[Tensor, Tensor]:
    """(image, label) of each island."""
    batch, cells = labels_BHW.shape[0], labels_BHW[0].numel()
    keys = labels_BHW.flatten(1) + torch.arange(batch, device=labels_BHW.device)[:, None] * (cells + 1)
    unique = keys[labels_BHW.flatten(1) > 0].unique()
    return unique // (cells + 1), unique % (cells + 1)

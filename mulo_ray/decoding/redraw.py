"""What is resampled after a rejection, and in which order (docs/method.md section 2).

Knows no model and no tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from mulo_ray.decoding import grid
from mulo_ray.decoding.wavefront import levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Redraw:
    """A schedule of resampling: level per cell (0: keep the draft), and how many islands each image has."""

    levels_BHW: Tensor
    islands_B: Tensor


def raster(rejected_BHW: Tensor, radius: int, window: int) -> Redraw:
    """Everything from the first rejected cell on, one by one: the classic rule."""
    del radius, window
    mask_BHW = grid.from_first(rejected_BHW)
    return Redraw(levels_BHW=levels(mask_BHW.long(), 0), islands_B=mask_BHW.flatten(1).any(1).long())


def serial(rejected_BHW: Tensor, radius: int, window: int) -> Redraw:
    """The cells of R_X one by one in raster order (v1)."""
    del window
    mask_BHW = grid.expand(rejected_BHW, radius)
    return Redraw(levels_BHW=levels(mask_BHW.long(), 0), islands_B=mask_BHW.flatten(1).any(1).long())


def islands(rejected_BHW: Tensor, radius: int, window: int) -> Redraw:
    """The 8-connected islands of R_X side by side, each a ZipAR wavefront of `window` (v2)."""
    labels_BHW = grid.islands(grid.expand(rejected_BHW, radius))
    return Redraw(levels_BHW=levels(labels_BHW, window), islands_B=grid.count_islands(labels_BHW))


REDRAW_RULES: dict[str, Callable[[Tensor, int, int], Redraw]] = {"raster": raster, "serial": serial, "islands": islands}

"""Plain raster decoding, the yardstick of every test and ratio, and ZipAR, its strongest simple rival.

Both are targets without a drafter. Exact: `ar` by definition; `zipar` drops context and is relaxed.
"""

import time

import torch
from torch import Tensor

from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.cycles import image_stats
from mulo_ray.decoding.interfaces import Generation, Request, Scale
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.wavefront import levels


def resample(canvas: Canvas, levels_BN: Tensor) -> None:
    """Draw all cells of level 1 in one forward, then those of level 2, and so on."""
    rows, cells = (levels_BN > 0).nonzero(as_tuple=True)
    level = levels_BN[rows, cells]
    order = level.argsort(stable=True)
    counts = torch.bincount(level)[1:].tolist() if len(level) else []
    for chosen in order.split([count for count in counts if count]):
        canvas.draw(rows[chosen], cells[chosen], canvas.predict(rows[chosen], cells[chosen]))


class _PlainTarget:
    """One slot is one micro-batch; `advance` draws the whole grid."""

    def __init__(self, scale: Scale, sampling: Sampling) -> None:
        self._scale, self._sampling = scale, sampling
        self._slots: dict[int, tuple[Canvas, dict[str, float]]] = {}

    def begin(self, slot: int, request: Request) -> None:
        started = time.perf_counter()
        canvas = Canvas(self._scale, request, self._sampling)
        self._slots[slot] = (canvas, {"prefill": time.perf_counter() - started})

    def advance(self, slot: int, draft_BHW: Tensor | None) -> Tensor | None:
        assert draft_BHW is None, "plain decoding takes no draft"
        canvas, seconds = self._slots[slot]
        started = time.perf_counter()
        self._decode(canvas)
        seconds["decode"] = time.perf_counter() - started
        return None

    def finish(self, slot: int) -> Generation:
        canvas, seconds = self._slots.pop(slot)
        return Generation(tokens_BHW=canvas.grid_BHW(), stats=image_stats(canvas, seconds, role="target"))

    def _decode(self, canvas: Canvas) -> None:
        raise NotImplementedError


class AutoregressiveTarget(_PlainTarget):
    """Cell by cell in raster order: N forwards, the prefill included."""

    def _decode(self, canvas: Canvas) -> None:
        rows = torch.arange(canvas.batch, device=canvas.tokens_BN.device)
        for cell in range(canvas.cells):
            cells = torch.full_like(rows, cell)
            canvas.draw(rows, cells, canvas.predict(rows, cells))


class ZipARTarget(_PlainTarget):
    """Wavefront decoding with a window of s cells: W + (H - 1) * s forwards (arXiv 2412.04062)."""

    def __init__(self, scale: Scale, sampling: Sampling, window: int) -> None:
        super().__init__(scale, sampling)
        self._window = window

    def _decode(self, canvas: Canvas) -> None:
        resample(canvas, levels(torch.ones_like(canvas.grid_BHW()), self._window).flatten(1))

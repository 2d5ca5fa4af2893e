"""MuLo-SD: the drafter and target roles of one cycle (docs/method.md section 2, arXiv 2601.05149).

draft -> upsample -> verify -> expand -> resample -> commit. Relaxed for tau <= 1 (see verification.py).
Shape letters: B images, H W target rows and columns, h w drafter rows and columns. Knows no model.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mulo_ray.decoding.autoregressive import resample
from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.cycles import CycleTarget, Slot
from mulo_ray.decoding.interfaces import Request, Resampler, Scale
from mulo_ray.decoding.redraw import REDRAW_RULES, Redraw
from mulo_ray.decoding.sampling import Sampling, log_probabilities
from mulo_ray.decoding.stats import ImageStats
from mulo_ray.decoding.verification import accept
from mulo_ray.decoding.wavefront import levels


@dataclass(frozen=True, slots=True, kw_only=True)
class MuloOptions:
    """Resolved options. `neighbours_VK` is the pooling table; `rows_per_cycle` divides the drafter's side; a window
    of 0 is raster order."""

    tau: float
    neighbours_VK: Tensor
    radius: int
    redraw: str
    rows_per_cycle: int
    window: int
    refresh_cache: bool


class MuloDrafter:
    """M_q: draws blocks of whole low-resolution rows, by ZipAR wavefront."""

    def __init__(self, scale: Scale, sampling: Sampling, *, rows_per_cycle: int, window: int) -> None:
        self._scale, self._sampling = scale, sampling
        self._rows, self._window = rows_per_cycle, window
        self._slots: dict[int, Slot] = {}

    def begin(self, slot: int, request: Request) -> None:
        started = time.perf_counter()
        self._slots[slot] = Slot(Canvas(self._scale, request, self._sampling))
        self._slots[slot].seconds["draft"] = time.perf_counter() - started

    def draft(self, slot: int, committed_BHW: Tensor | None) -> Tensor:
        """See interfaces.Drafter. The rewrite of the committed rows rides in the first forward of the new block."""
        state = self._slots[slot]
        canvas, side = state.canvas, self._scale.side
        with state.phase("draft"):
            if committed_BHW is not None:
                canvas.place_rows(state.row - self._rows, committed_BHW.to(canvas.tokens_BN.device))
            block_BHW = torch.zeros_like(canvas.grid_BHW())
            block_BHW[:, state.row : state.row + self._rows] = 1
            resample(canvas, levels(block_BHW, self._window).flatten(1))
            state.row += self._rows
            return canvas.grid_BHW()[:, state.row - self._rows : state.row].reshape(canvas.batch, self._rows, side)

    def finish(self, slot: int) -> Sequence[ImageStats]:
        return self._slots.pop(slot).stats("drafter")


class MuloTarget(CycleTarget):
    """M_p: lifts a draft, verifies it in one forward, resamples what it rejects, commits the block."""

    def __init__(self, scale: Scale, sampling: Sampling, resampler: Resampler, options: MuloOptions) -> None:
        super().__init__(scale, sampling, resampler, options.rows_per_cycle)
        self._options = options

    def _decide(self, state: Slot) -> None:
        with state.phase("verify"):
            rows_M, cells_M = self._block(state)
            logits_MV = state.canvas.predict(rows_M, cells_M)
            redraw = self._verdict(state, rows_M, cells_M, logits_MV)
        with state.phase("resample"):
            self._resample(state, redraw, logits_MV)

    def _verdict(self, state: Slot, rows_M: Tensor, cells_M: Tensor, logits_MV: Tensor) -> Redraw:
        canvas, options = state.canvas, self._options
        kept_M = accept(
            log_probabilities(logits_MV, self._sampling),
            canvas.tokens_BN[rows_M, cells_M],
            options.neighbours_VK,
            options.tau,
        )
        state.rejected_BN[rows_M, cells_M] = ~kept_M
        kept_BHW = kept_M.view(canvas.batch, self._rows, self._scale.side)
        redraw = REDRAW_RULES[options.redraw](~kept_BHW, options.radius, options.window)
        state.count("accepted", kept_BHW.flatten(1).sum(1))
        state.count("rejected", (~kept_BHW).flatten(1).sum(1))
        state.count("resampled", (redraw.levels_BHW > 0).flatten(1).sum(1))
        state.count("islands", redraw.islands_B)
        state.count("depth", (redraw.levels_BHW.flatten(1).amax(1) - 1).clamp(min=0))  # level 1 costs no forward
        return redraw

    def _resample(self, state: Slot, redraw: Redraw, logits_MV: Tensor) -> None:
        """Level 1 is drawn from the verifying forward itself: the first cell of an island has seen nothing change."""
        canvas, offset = state.canvas, state.row * self._scale.side
        levels_BN = redraw.levels_BHW.flatten(1)
        rows, cells = (levels_BN == 1).nonzero(as_tuple=True)
        canvas.draw(rows, cells + offset, logits_MV.view(*levels_BN.shape, -1)[rows, cells])
        whole_BN = torch.zeros_like(canvas.tokens_BN)
        whole_BN[:, offset : offset + levels_BN.shape[1]] = (levels_BN - 1).clamp(min=0)
        resample(canvas, whole_BN)

    def _before_next_block(self, state: Slot, first: int) -> None:
        if self._options.refresh_cache:
            state.canvas.mark_stale(first, self._rows)

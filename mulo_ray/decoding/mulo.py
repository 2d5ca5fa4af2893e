"""MuLo-SD: the drafter and target roles of one cycle (docs/method.md section 2, arXiv 2601.05149).

draft -> upsample -> verify -> expand -> resample -> commit, in blocks of d drafter rows (all: whole-image mode).
Every image of a micro-batch advances by the same block. Relaxed for tau <= 1 (see verification.py).
Shape letters: B images, H W target rows and columns, h w drafter rows and columns.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mulo_ray.decoding.autoregressive import image_stats, resample
from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.interfaces import Generation, Request, Resampler, Scale
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


@dataclass(slots=True)
class _Slot:
    """One micro-batch in flight."""

    canvas: Canvas
    row: int = 0  # first grid row of the next block
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def count(self, name: str, values_B: Tensor) -> None:
        self.counts[name] = self.counts[name] + values_B if name in self.counts else values_B


class MuloDrafter:
    """M_q: draws blocks of whole low-resolution rows, by ZipAR wavefront."""

    def __init__(self, scale: Scale, sampling: Sampling, *, rows_per_cycle: int, window: int) -> None:
        self._scale, self._sampling = scale, sampling
        self._rows, self._window = rows_per_cycle, window
        self._slots: dict[int, _Slot] = {}

    def begin(self, slot: int, request: Request) -> None:
        started = time.perf_counter()
        self._slots[slot] = _Slot(Canvas(self._scale, request, self._sampling))
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
        state = self._slots.pop(slot)
        return image_stats(state.canvas, state.seconds, role="drafter")


class MuloTarget:
    """M_p: lifts a draft, verifies it in one forward, resamples what it rejects, commits the block."""

    def __init__(self, scale: Scale, sampling: Sampling, resampler: Resampler, options: MuloOptions) -> None:
        self._scale, self._sampling, self._resampler, self._options = scale, sampling, resampler, options
        self._rows = options.rows_per_cycle * resampler.ratio  # target rows per cycle
        self._slots: dict[int, _Slot] = {}

    def begin(self, slot: int, request: Request) -> None:
        started = time.perf_counter()
        self._slots[slot] = _Slot(Canvas(self._scale, request, self._sampling))
        self._slots[slot].seconds["prefill"] = time.perf_counter() - started

    def advance(self, slot: int, draft_BHW: Tensor | None) -> Tensor | None:
        """One cycle; see interfaces.Target."""
        assert draft_BHW is not None, "MuLo-SD verifies a draft"
        state = self._slots[slot]
        canvas = state.canvas
        with state.phase("upsample"):
            self._place_candidates(state, draft_BHW.to(canvas.tokens_BN.device))
        with state.phase("verify"):
            rows_M, cells_M = self._block(state)
            logits_MV = canvas.predict(rows_M, cells_M)
            redraw = self._verdict(state, rows_M, cells_M, logits_MV)
        with state.phase("resample"):
            self._resample(state, redraw, logits_MV)
        return self._commit(state)

    def finish(self, slot: int) -> Generation:
        state = self._slots.pop(slot)
        stats = image_stats(state.canvas, state.seconds, role="target")
        for name, values_B in state.counts.items():
            for image, value in zip(stats, values_B.tolist(), strict=True):
                setattr(image, name, int(value))
        return Generation(tokens_BHW=state.canvas.grid_BHW(), stats=stats)

    def _place_candidates(self, state: _Slot, draft_BHW: Tensor) -> None:
        """x~ = U_r(y~). Rows below the draft are replicate-padded, rows above are what was committed."""
        ratio = self._resampler.ratio
        above_BHW = (
            self._down(state.canvas.grid_BHW()[:, : state.row], self._scale.side) if state.row else draft_BHW[:, :0]
        )
        known_BHW = torch.cat([above_BHW[:, : state.row // ratio], draft_BHW], dim=1)
        lifted_BHW = self._resampler.up(_replicate_down(known_BHW, self._scale.side // ratio))
        state.canvas.place_rows(state.row, lifted_BHW[:, state.row : state.row + self._rows])

    def _block(self, state: _Slot) -> tuple[Tensor, Tensor]:
        canvas, side = state.canvas, self._scale.side
        cells = torch.arange(state.row * side, (state.row + self._rows) * side, device=canvas.tokens_BN.device)
        rows = torch.arange(canvas.batch, device=cells.device)
        return rows.repeat_interleave(len(cells)), cells.repeat(canvas.batch)

    def _verdict(self, state: _Slot, rows_M: Tensor, cells_M: Tensor, logits_MV: Tensor) -> Redraw:
        canvas, options = state.canvas, self._options
        kept_M = accept(
            log_probabilities(logits_MV, self._sampling),
            canvas.tokens_BN[rows_M, cells_M],
            options.neighbours_VK,
            options.tau,
        )
        kept_BHW = kept_M.view(canvas.batch, self._rows, self._scale.side)
        redraw = REDRAW_RULES[options.redraw](~kept_BHW, options.radius, options.window)
        state.count("cycles", torch.ones_like(canvas.forwards_B))
        state.count("accepted", kept_BHW.flatten(1).sum(1))
        state.count("rejected", (~kept_BHW).flatten(1).sum(1))
        state.count("resampled", (redraw.levels_BHW > 0).flatten(1).sum(1))
        state.count("islands", redraw.islands_B)
        state.count("depth", (redraw.levels_BHW.flatten(1).amax(1) - 1).clamp(min=0))  # level 1 costs no forward
        return redraw

    def _resample(self, state: _Slot, redraw: Redraw, logits_MV: Tensor) -> None:
        """Level 1 is drawn from the verifying forward itself: the first cell of an island has seen nothing change."""
        canvas, offset = state.canvas, state.row * self._scale.side
        levels_BN = redraw.levels_BHW.flatten(1)
        rows, cells = (levels_BN == 1).nonzero(as_tuple=True)
        canvas.draw(rows, cells + offset, logits_MV.view(*levels_BN.shape, -1)[rows, cells])
        whole_BN = torch.zeros_like(canvas.tokens_BN)
        whole_BN[:, offset : offset + levels_BN.shape[1]] = (levels_BN - 1).clamp(min=0)
        resample(canvas, whole_BN)

    def _commit(self, state: _Slot) -> Tensor | None:
        """Move on by a block; the low-resolution rows y = D_r(x) of it, or None after the last."""
        first, state.row = state.row, state.row + self._rows
        if state.row >= self._scale.side:
            return None
        if self._options.refresh_cache:
            state.canvas.mark_stale(first, self._rows)
        with state.phase("upsample"):
            ratio = self._resampler.ratio
            return self._down(state.canvas.grid_BHW()[:, : state.row], self._scale.side)[
                :, first // ratio : state.row // ratio
            ]

    def _down(self, finished_BHW: Tensor, side: int) -> Tensor:
        return self._resampler.down(_replicate_down(finished_BHW, side))


def _replicate_down(rows_BHW: Tensor, side: int) -> Tensor:
    """Fill a grid of `side` rows by repeating the last known row."""
    missing = side - rows_BHW.shape[1]
    return torch.cat([rows_BHW, rows_BHW[:, -1:].expand(-1, missing, -1)], dim=1)

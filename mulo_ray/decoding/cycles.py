"""What every target shares that works on drafts: lift a block, decide about it, commit it (docs/method.md section 2).

Every image of a micro-batch advances by the same block of d drafter rows (all: whole-image mode).
Shape letters: B images, M cells of one block over the batch, H W target rows and columns, h w the drafter's. Knows no
rule of acceptance.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.interfaces import Generation, Request, Resampler, Scale
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.stats import ImageStats


@dataclass(slots=True)
class Slot:
    """One micro-batch in flight."""

    canvas: Canvas
    row: int = 0  # first grid row of the next block
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)
    rejected_BN: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.rejected_BN = torch.zeros_like(self.canvas.filled_BN)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def count(self, name: str, values_B: Tensor) -> None:
        """Add to a field of `ImageStats`, per image."""
        self.counts[name] = self.counts[name] + values_B if name in self.counts else values_B

    def stats(self, role: str) -> list[ImageStats]:
        """What it cost so far, per image."""
        return image_stats(self.canvas, self.seconds, self.counts, role=role)

    def generation(self) -> Generation:
        """What a finished target that works on drafts hands over."""
        grid_BHW = self.canvas.grid_BHW()
        return Generation(
            tokens_BHW=grid_BHW, stats=self.stats("target"), rejected_BHW=self.rejected_BN.view_as(grid_BHW)
        )


class CycleTarget:
    """One `advance` is one cycle. A rule of acceptance fills in `_decide`."""

    def __init__(self, scale: Scale, sampling: Sampling, resampler: Resampler, rows_per_cycle: int) -> None:
        self._scale, self._sampling, self._resampler = scale, sampling, resampler
        self._rows = rows_per_cycle * resampler.ratio  # target rows per cycle
        self._slots: dict[int, Slot] = {}

    def begin(self, slot: int, request: Request) -> None:
        """See interfaces.Target."""
        started = time.perf_counter()
        self._slots[slot] = Slot(Canvas(self._scale, request, self._sampling))
        self._slots[slot].seconds["prefill"] = time.perf_counter() - started

    def advance(self, slot: int, draft_BHW: Tensor | None) -> Tensor | None:
        """One cycle; see interfaces.Target."""
        assert draft_BHW is not None, "a cycle needs a draft"
        state = self._slots[slot]
        with state.phase("upsample"):
            self._place_candidates(state, draft_BHW.to(state.canvas.tokens_BN.device))
        self._decide(state)
        state.count("cycles", torch.ones_like(state.canvas.forwards_B))
        return self._commit(state)

    def finish(self, slot: int) -> Generation:
        """See interfaces.Target."""
        return self._slots.pop(slot).generation()

    def _decide(self, state: Slot) -> None:
        """Turn the block's candidates, already on the canvas, into its final tokens."""
        raise NotImplementedError

    def _block(self, state: Slot) -> tuple[Tensor, Tensor]:
        """(row, cell) of every cell of the block, image by image."""
        canvas, side = state.canvas, self._scale.side
        cells = torch.arange(state.row * side, (state.row + self._rows) * side, device=canvas.tokens_BN.device)
        rows = torch.arange(canvas.batch, device=cells.device)
        return rows.repeat_interleave(len(cells)), cells.repeat(canvas.batch)

    def _place_candidates(self, state: Slot, draft_BHW: Tensor) -> None:
        """x~ = U_r(y~). Rows below the draft are replicate-padded, rows above are what was committed."""
        ratio = self._resampler.ratio
        above_BHW = (
            self._down(state.canvas.grid_BHW()[:, : state.row], self._scale.side) if state.row else draft_BHW[:, :0]
        )
        known_BHW = torch.cat([above_BHW[:, : state.row // ratio], draft_BHW], dim=1)
        lifted_BHW = self._resampler.up(_replicate_down(known_BHW, self._scale.side // ratio))
        state.canvas.place_rows(state.row, lifted_BHW[:, state.row : state.row + self._rows])

    def _commit(self, state: Slot) -> Tensor | None:
        """Move on by a block; the low-resolution rows y = D_r(x) of it, or None after the last."""
        first, state.row = state.row, state.row + self._rows
        if state.row >= self._scale.side:
            return None
        self._before_next_block(state, first)
        with state.phase("upsample"):
            ratio = self._resampler.ratio
            return self._down(state.canvas.grid_BHW()[:, : state.row], self._scale.side)[
                :, first // ratio : state.row // ratio
            ]

    def _before_next_block(self, state: Slot, first: int) -> None:
        """What a rule does to the rows from `first` on that it has just committed."""

    def _down(self, finished_BHW: Tensor, side: int) -> Tensor:
        return self._resampler.down(_replicate_down(finished_BHW, side))


def image_stats(
    canvas: Canvas, seconds: dict[str, float], counts: dict[str, Tensor] | None = None, *, role: str
) -> list[ImageStats]:
    """One ImageStats per image of a canvas; the micro-batch's seconds are shared out evenly."""
    share = {phase: value / canvas.batch for phase, value in seconds.items()}
    stats = [
        ImageStats(
            forwards_target=forwards if role == "target" else 0,
            forwards_drafter=forwards if role == "drafter" else 0,
            query_positions=queries,
            seconds=dict(share),
        )
        for forwards, queries in zip(canvas.forwards_B.tolist(), canvas.queries_B.tolist(), strict=True)
    ]
    for name, values_B in (counts or {}).items():
        for image, value in zip(stats, values_B.tolist(), strict=True):
            setattr(image, name, getattr(image, name) + int(value))
    return stats


def _replicate_down(rows_BHW: Tensor, side: int) -> Tensor:
    """Fill a grid of `side` rows by repeating the last known row."""
    missing = side - rows_BHW.shape[1]
    return torch.cat([rows_BHW, rows_BHW[:, -1:].expand(-1, missing, -1)], dim=1)

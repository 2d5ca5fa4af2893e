"""Exact verification for MuLo-SD: a lifted draft as guesses that the target's own draws confirm or replace.

Coupled Jacobi decoding (docs/method.md section 5). A cell is accepted when its guess is what its keyed noise draws
from the target's distribution; the first other one is replaced by that draw, which is final, because everything before
it is. Draws of later cells were made under a wrong context: they are better guesses, nothing more. So in float32 the
tokens are those of plain decoding, whatever the draft. A window bounds the queries of a forward.
Shape letters: B images, W window cells. Knows no model.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.cycles import CycleTarget, Slot
from mulo_ray.decoding.interfaces import Resampler, Scale
from mulo_ray.decoding.sampling import Sampling, sample


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOptions:
    """`verify_window` cells of an image are looked at in one forward (0: the whole block). `renew`: whether cells after
    a mismatch take their new draws as guesses, or keep the draft."""

    rows_per_cycle: int
    verify_window: int
    renew: bool = True


class ExactTarget(CycleTarget):
    """M_p with exact verification. Images of a batch advance at their own pace within a block."""

    def __init__(self, scale: Scale, sampling: Sampling, resampler: Resampler, options: ExactOptions) -> None:
        super().__init__(scale, sampling, resampler, options.rows_per_cycle)
        self._options = options

    def _decide(self, state: Slot) -> None:
        with state.phase("verify"):
            canvas, side = state.canvas, self._scale.side
            first, end = state.row * side, (state.row + self._rows) * side
            window = self._options.verify_window or end - first
            final_B = torch.full_like(canvas.forwards_B, first)  # every cell before it is as plain decoding has it
            before_B = canvas.forwards_B.clone()
            right_B = torch.zeros_like(final_B)
            while bool((final_B < end).any()):
                start_B = final_B.clone()
                run_B = confirm(canvas, final_B, end, window, renew=self._options.renew)
                wrong_B = final_B > start_B + run_B  # a window without a wrong guess ends at its run
                state.rejected_BN[wrong_B, (start_B + run_B)[wrong_B]] = True
                right_B += run_B
            state.count("accepted", right_B)
            state.count("rejected", end - first - right_B)
            state.count("resampled", end - first - right_B)
            state.count("depth", canvas.forwards_B - before_B - 1)


def confirm(canvas: Canvas, final_B: Tensor, end: int, window: int, *, renew: bool) -> Tensor:
    """One forward over the next `window` cells of every unfinished image; advances `final_B` in place.

    Returns how many guesses of each image were right (B,). An image gains at least one cell.
    """
    cells_BW = final_B[:, None] + torch.arange(window, device=final_B.device)
    asked_BW = cells_BW < end
    rows_M, places_M = asked_BW.nonzero(as_tuple=True)
    cells_M = cells_BW[rows_M, places_M]
    guesses_M = canvas.tokens_BN[rows_M, cells_M]
    logits_MV = canvas.predict(rows_M, cells_M)
    drawn_M = sample(logits_MV, canvas.sampling, canvas.seeds_B[rows_M], canvas.scale.side, cells_M)
    right_BW = torch.zeros_like(asked_BW)
    right_BW[rows_M, places_M] = drawn_M == guesses_M
    run_B = right_BW.long().cumprod(1).sum(1)
    taken_M = (drawn_M != guesses_M) & (renew | (places_M == run_B[rows_M]))
    canvas.place(rows_M[taken_M], cells_M[taken_M], drawn_M[taken_M])
    final_B.copy_(torch.minimum(final_B + run_B + 1, (final_B + window).clamp(max=end)).where(asked_BW[:, 0], final_B))
    return run_B

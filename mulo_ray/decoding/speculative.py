"""Chain speculative decoding with the ratio rule (arXiv 2211.17192, 2302.01318): exact in distribution.

A drafter of the target's own grid draws a few tokens, one forward of the target looks at them all. Token x is accepted
with probability min(1, p(x) / q(x)); the first refused one is replaced by a draw from max(0, p - q); if none is, one
more token is drawn from p. Not `ar` token for token: other draws of the same distribution. Each kind of draw has noise
of its own per cell, and what a cell emits depends on its own noise and the tokens before it alone, so noise need not
know rounds. Images of a batch advance at their own pace. Shape letters: B images, A unfinished ones, K chain, V codes.
Knows no model.
"""

import time

import torch
from torch import Tensor

from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.cycles import Slot
from mulo_ray.decoding.interfaces import Generation, Request, Scale
from mulo_ray.decoding.sampling import Sampling, draw, gumbel, log_probabilities, uniform
from mulo_ray.errors import CheckpointError

_DRAFT, _ACCEPT, _REPLACE = 1, 2, 3  # attempts of the noise generator; 0 is plain decoding's


class SpeculativeTarget:
    """A target that holds its drafter: both sit on one device, since they take turns every few tokens."""

    def __init__(self, scale: Scale, drafter: Scale, sampling: Sampling, *, chain: int) -> None:
        assert scale.side == drafter.side, "both models draw the same grid"
        if scale.codebook_size != drafter.codebook_size:
            raise CheckpointError(
                f"the drafter's {drafter.codebook_size} codes and the target's {scale.codebook_size} are not the same"
            )
        self._scale, self._drafter, self._sampling, self._chain = scale, drafter, sampling, chain
        self._slots: dict[int, tuple[Slot, Canvas]] = {}

    def begin(self, slot: int, request: Request) -> None:
        """See interfaces.Target."""
        started = time.perf_counter()
        state = Slot(Canvas(self._scale, request, self._sampling))
        self._slots[slot] = (state, Canvas(self._drafter, request, self._sampling))
        state.seconds["prefill"] = time.perf_counter() - started

    def advance(self, slot: int, draft_BHW: Tensor | None) -> Tensor | None:
        """Draw the whole grid."""
        assert draft_BHW is None, "the drafter is inside"
        state, drafter = self._slots[slot]
        canvas = state.canvas
        next_B = torch.zeros_like(canvas.seeds_B)
        while True:
            rows_A = (next_B < canvas.cells).nonzero(as_tuple=True)[0]
            if not len(rows_A):
                return None
            # the last cell of a round comes from the target alone
            lengths_A = (canvas.cells - 1 - next_B[rows_A]).clamp(max=self._chain)
            with state.phase("draft"):
                logq_AKV = self._draft(drafter, rows_A, next_B[rows_A], lengths_A)
            with state.phase("verify"):
                next_B[rows_A] += self._verify(state, drafter, rows_A, next_B[rows_A], lengths_A, logq_AKV)

    def finish(self, slot: int) -> Generation:
        """See interfaces.Target."""
        state, drafter = self._slots.pop(slot)
        state.count("forwards_drafter", drafter.forwards_B)
        state.count("query_positions", drafter.queries_B)
        return state.generation()

    def _draft(self, drafter: Canvas, rows_A: Tensor, next_A: Tensor, lengths_A: Tensor) -> Tensor:
        """Draw each image's chain; the log-probabilities (A, K, V) it was drawn from."""
        logq_AKV = torch.zeros(len(rows_A), self._chain, drafter.scale.codebook_size, device=rows_A.device)
        for place in range(int(lengths_A.max())):
            at = (lengths_A > place).nonzero(as_tuple=True)[0]
            rows_M, cells_M = rows_A[at], next_A[at] + place
            logq_MV = log_probabilities(drafter.predict(rows_M, cells_M), self._sampling)
            drafter.place(rows_M, cells_M, draw(logq_MV, self._noise(drafter, rows_M, cells_M, _DRAFT)))
            logq_AKV[at, place] = logq_MV
        return logq_AKV

    def _verify(
        self, state: Slot, drafter: Canvas, rows_A: Tensor, next_A: Tensor, lengths_A: Tensor, logq_AKV: Tensor
    ) -> Tensor:
        """One forward of the target; how many cells each image gained (A,)."""
        canvas, at_A = state.canvas, torch.arange(len(rows_A), device=rows_A.device)
        cells_AK = next_A[:, None] + torch.arange(self._chain, device=rows_A.device)
        drafted_AK = cells_AK < (next_A + lengths_A)[:, None]
        image_M, place_M = drafted_AK.nonzero(as_tuple=True)
        rows_M, cells_M = rows_A[image_M], cells_AK[image_M, place_M]
        tokens_M = drafter.tokens_BN[rows_M, cells_M]
        canvas.place(rows_M, cells_M, tokens_M)
        logits_MV = canvas.predict(torch.cat([rows_M, rows_A]), torch.cat([cells_M, next_A + lengths_A]))
        logp_MV = log_probabilities(logits_MV, self._sampling)
        kept_M = accept_ratio(
            logp_MV[: len(rows_M)].gather(1, tokens_M[:, None])[:, 0],
            logq_AKV[image_M, place_M, tokens_M],
            uniform(canvas.seeds_B[rows_M], canvas.scale.side, cells_M, _ACCEPT),
        )
        kept_AK = torch.zeros_like(drafted_AK)
        kept_AK[image_M, place_M] = kept_M
        run_A = kept_AK.long().cumprod(1).sum(1)
        # the row of the answers that predicts the first cell after the run
        starts_A = lengths_A.cumsum(0) - lengths_A
        after_A = torch.where(run_A < lengths_A, starts_A + run_A, len(rows_M) + at_A)
        whole_A = run_A == lengths_A
        logq_AV = logq_AKV[at_A, run_A.clamp(max=self._chain - 1)] if self._chain else logp_MV[after_A]
        logp_AV = torch.where(whole_A[:, None], logp_MV[after_A], residual(logp_MV[after_A], logq_AV))
        seeds_A, cells_A = canvas.seeds_B[rows_A], next_A + run_A
        codes = logp_AV.shape[-1]
        noise_AV = torch.where(
            whole_A[:, None],
            gumbel(seeds_A, canvas.scale.side, cells_A, codes),
            gumbel(seeds_A, canvas.scale.side, cells_A, codes, _REPLACE),
        )
        tokens_A = draw(logp_AV, noise_AV)
        for either in (canvas, drafter):
            either.place(rows_A, cells_A, tokens_A)
        drafted_B = torch.zeros_like(canvas.seeds_B)
        state.count("cycles", drafted_B.index_fill(0, rows_A, 1))
        state.count("accepted", drafted_B.index_copy(0, rows_A, run_A))
        state.count("rejected", drafted_B.index_copy(0, rows_A, (~whole_A).long()))
        state.rejected_BN[rows_A[~whole_A], cells_A[~whole_A]] = True
        return run_A + 1

    def _noise(self, canvas: Canvas, rows_M: Tensor, cells_M: Tensor, attempt: int) -> Tensor:
        return gumbel(canvas.seeds_B[rows_M], canvas.scale.side, cells_M, canvas.scale.codebook_size, attempt)


def accept_ratio(logp_M: Tensor, logq_M: Tensor, uniform_M: Tensor) -> Tensor:
    """Whether u < p(x) / q(x). (M,) bool."""
    return uniform_M.log() < logp_M - logq_M


def residual(logp_MV: Tensor, logq_MV: Tensor) -> Tensor:
    """Log of max(0, p - q), not normalised; p itself where rounding left nothing."""
    rest_MV = (logp_MV.exp() - logq_MV.exp()).clamp(min=0).log()
    return torch.where((rest_MV > -torch.inf).any(-1, keepdim=True), rest_MV, logp_MV)

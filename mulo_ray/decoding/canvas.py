"""The state of one micro-batch at one scale: its tokens, and which of them the cache has seen.

Predicting a cell feeds the cell before it; cells whose token changed since they were fed are **stale** and ride along
in the next forward that can see them, so that no key outlives its token and no forward is spent on bookkeeping.
Shape letters: B images, N cells, M cells of one call, V codebook entries. Knows no schedule and no rule.
"""

from typing import cast

import torch
from torch import Tensor

from mulo_ray.decoding.interfaces import FeatureScale, Queries, Request, Scale
from mulo_ray.decoding.sampling import Sampling, sample


class Canvas:
    """Tokens and cache of B images. `counted` says what it cost so far, per image."""

    def __init__(self, scale: Scale, request: Request, sampling: Sampling) -> None:
        self.scale, self.sampling = scale, sampling
        self.cells = scale.side**2
        self.cache = scale.start(request.condition, sampling.guidance)
        self.batch = len(request.seeds_B)
        device = self.cache.first_logits_BV.device
        self.seeds_B = request.seeds_B.to(device)
        self.tokens_BN = torch.zeros(self.batch, self.cells, dtype=torch.int64, device=device)
        self.filled_BN = torch.zeros(self.batch, self.cells, dtype=torch.bool, device=device)
        self.stale_BN = self.filled_BN.clone()
        self.forwards_B = torch.ones(self.batch, dtype=torch.int64, device=device)  # the prefill
        self.queries_B = torch.zeros(self.batch, dtype=torch.int64, device=device)
        self._every_N = torch.arange(self.cells, device=device)

    def place(self, rows_M: Tensor, cells_M: Tensor, tokens_M: Tensor) -> None:
        """Set tokens; their cells become stale."""
        self.tokens_BN[rows_M, cells_M] = tokens_M
        self.filled_BN[rows_M, cells_M] = True
        self.stale_BN[rows_M, cells_M] = True

    def place_rows(self, first_row: int, tokens_BHW: Tensor) -> None:
        """Set whole grid rows from `first_row` on; all their cells become stale, changed or not."""
        start = first_row * self.scale.side
        block = slice(start, start + tokens_BHW[0].numel())
        self.tokens_BN[:, block] = tokens_BHW.flatten(1)
        self.filled_BN[:, block] = True
        self.stale_BN[:, block] = True

    def mark_stale(self, first_row: int, rows: int) -> None:
        """Have the next forward rewrite these grid rows' keys and values under the final tokens (refresh_cache)."""
        self.stale_BN[:, first_row * self.scale.side : (first_row + rows) * self.scale.side] = True

    def predict(self, rows_M: Tensor, cells_M: Tensor) -> Tensor:
        """Guided logits_MV of the given cells, in one forward (none for cell 0 alone: the prefill answered it)."""
        later_M = cells_M > 0
        fed_rows, fed_cells = rows_M[later_M], cells_M[later_M] - 1
        last_B = self.tokens_BN.new_full((self.batch,), -1).scatter_reduce(0, rows_M, cells_M, "amax")
        extra_BN = self.stale_BN & (self._every_N < last_B[:, None])
        extra_BN[fed_rows, fed_cells] = False
        extra_rows, extra_cells = extra_BN.nonzero(as_tuple=True)
        logits_MV = self.cache.first_logits_BV[rows_M]
        if len(fed_rows) + len(extra_rows) == 0:
            return logits_MV
        rows, cells = torch.cat([fed_rows, extra_rows]), torch.cat([fed_cells, extra_cells])
        out = self._feed(rows, cells, answers=len(fed_rows))
        return torch.where(later_M[:, None], out[torch.cumsum(later_M, 0) - 1], logits_MV)

    def explore(self, rows_B: Tensor, cells_B: Tensor, branches: Queries) -> tuple[Tensor, Tensor]:
        """One forward for a cell of each of some images, as `predict`, and for branches that hang on it.

        Branches need slots and sights of their own and leave nothing behind. Cells from 1 on, one per image, all before
        them drawn. Returns logits (cells first, then branches) and hidden states (G, M, E) in that order.
        """
        assert branches.slots_M is not None, "branches borrow slots"
        assert branches.seen_MN is not None, "branches see each their own path"
        scale = cast(FeatureScale, self.scale)
        last_B = self.tokens_BN.new_full((self.batch,), -1).scatter(0, rows_B, cells_B)
        extra_BN = self.stale_BN & (self._every_N < last_B[:, None])
        extra_BN[rows_B, cells_B - 1] = False
        extra_rows, extra_cells = extra_BN.nonzero(as_tuple=True)
        plain_rows, plain_cells = torch.cat([rows_B, extra_rows]), torch.cat([cells_B - 1, extra_cells])
        plain_tokens, seen_MN = self.tokens_BN[plain_rows, plain_cells], self._every_N < plain_cells[:, None]
        at = len(rows_B)

        def join(plain_M: Tensor, branches_M: Tensor) -> Tensor:
            return torch.cat([plain_M[:at], branches_M, plain_M[at:]])

        queries = Queries(
            rows_M=join(plain_rows, branches.rows_M),
            cells_M=join(plain_cells, branches.cells_M),
            tokens_M=join(plain_tokens, branches.tokens_M),
            slots_M=join(plain_cells, branches.slots_M),
            seen_MN=join(seen_MN, branches.seen_MN),
            answers=at + len(branches.rows_M),
        )
        logits_MV, hidden_GME = scale.forward_features(self.cache, queries)
        self.stale_BN[plain_rows, plain_cells] = False
        self._count(queries.rows_M)
        return logits_MV, hidden_GME[:, : queries.answers]

    def draw(self, rows_M: Tensor, cells_M: Tensor, logits_MV: Tensor) -> None:
        """Sample the cells from their logits with their own noise, and place them."""
        self.place(rows_M, cells_M, sample(logits_MV, self.sampling, self.seeds_B[rows_M], self.scale.side, cells_M))

    def settle(self) -> None:
        """Feed every stale cell, so that the cache equals one built from the tokens (docs/method.md: oracle 5)."""
        rows, cells = self.stale_BN.nonzero(as_tuple=True)
        if len(rows):
            self._feed(rows, cells, answers=0)

    def grid_BHW(self) -> Tensor:
        """The tokens as (B, side, side)."""
        return self.tokens_BN.view(self.batch, self.scale.side, self.scale.side)

    def _feed(self, rows_M: Tensor, cells_M: Tensor, answers: int | None = None) -> Tensor:
        tokens_M = self.tokens_BN[rows_M, cells_M]
        filled_M = self.filled_BN[rows_M, cells_M]
        visible_BN = None
        last = int(cells_M.max())
        if not bool(self.filled_BN[:, : last + 1].all()):  # a wavefront over an empty grid, or rows apart
            tokens_M = torch.where(filled_M, tokens_M, self._surrogate(rows_M, cells_M))
            visible_BN = self.filled_BN
        queries = Queries(rows_M=rows_M, cells_M=cells_M, tokens_M=tokens_M, answers=answers)
        logits_MV = self.scale.forward(self.cache, queries, visible_BN)
        self.stale_BN[rows_M, cells_M] = False
        self._count(rows_M)
        return logits_MV

    def _count(self, rows_M: Tensor) -> None:
        counts_B = torch.bincount(rows_M, minlength=self.batch)
        self.queries_B += counts_B
        self.forwards_B += counts_B > 0

    def _surrogate(self, rows_M: Tensor, cells_M: Tensor) -> Tensor:
        """For a cell not drawn yet: the newest token before it in raster order. Only its own query sees its key."""
        newest_BN = torch.where(self.filled_BN, self._every_N, 0).cummax(1).values
        return self.tokens_BN[rows_M, newest_BN[rows_M, cells_M]]

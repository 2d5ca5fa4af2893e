"""Decoding by draft trees: EAGLE-2 (arXiv 2406.16858), exact, and LANTERN, its relaxation (docs/method.md section 5).

A head on the target's hidden states grows a tree of continuations, one forward of the target looks at all of its nodes,
and a walk keeps one path. Nodes are fed at the slots of cells not drawn yet; kept tokens are fed again at their own
slots in the next forward, so that the cache is plain decoding's. Images of a batch advance at their own pace.
Shape letters: A unfinished images, B images, T nodes, M queries, G guidance halves, E width. Knows no model.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.cycles import Slot
from mulo_ray.decoding.interfaces import DraftHead, FeatureScale, Generation, Queries, Request
from mulo_ray.decoding.sampling import Sampling, sample
from mulo_ray.decoding.tree_drafts import Grower, TreeOptions, Trees
from mulo_ray.decoding.tree_walk import Relaxation, walk


@dataclass(slots=True, kw_only=True)
class _Learnt:
    """Cells that the head has not been fed yet, with the hidden states that drew them; sorted by image."""

    rows_M: Tensor
    cells_M: Tensor
    hidden_GME: Tensor


class TreeTarget:
    """A target without a drafter: its head lives with it. Exact unless relaxed."""

    def __init__(
        self,
        scale: FeatureScale,
        head: DraftHead,
        sampling: Sampling,
        options: TreeOptions,
        relaxation: Relaxation | None = None,
    ) -> None:
        self._scale, self._head, self._sampling = scale, head, sampling
        self._options, self._relaxation = options, relaxation
        self._slots: dict[int, Slot] = {}

    def begin(self, slot: int, request: Request) -> None:
        """See interfaces.Target."""
        started = time.perf_counter()
        self._slots[slot] = Slot(Canvas(self._scale, request, self._sampling))
        self._slots[slot].seconds["prefill"] = time.perf_counter() - started

    def advance(self, slot: int, draft_BHW: Tensor | None) -> Tensor | None:
        """Draw the whole grid."""
        assert draft_BHW is None, "trees take no draft from outside"
        state = self._slots[slot]
        canvas = state.canvas
        grower = Grower(self._head, self._sampling, self._options, canvas.batch, canvas.cells)
        next_B = torch.ones_like(canvas.seeds_B)
        learnt = self._first_cell(canvas)
        while True:
            rows_A = (next_B < canvas.cells).nonzero(as_tuple=True)[0]
            if not len(rows_A):
                break
            with state.phase("draft"):
                trees = self._draft(canvas, grower, learnt, rows_A, next_B[rows_A])
            with state.phase("verify"):
                learnt = self._verify(state, trees, rows_A, next_B)
        for name, values_B in (("forwards_drafter", grower.forwards_B), ("query_positions", grower.queries_B)):
            state.count(name, values_B)
        return None

    def finish(self, slot: int) -> Generation:
        """See interfaces.Target. A cell counts as accepted when a node of a tree held its token, as rejected when a
        walk left its tree there."""
        return self._slots.pop(slot).generation()

    def _first_cell(self, canvas: Canvas) -> _Learnt:
        rows = torch.arange(canvas.batch, device=canvas.seeds_B.device)
        first = torch.zeros_like(rows)
        logits_BV = canvas.cache.first_logits_BV
        canvas.place(rows, first, sample(logits_BV, self._sampling, canvas.seeds_B, canvas.scale.side, first))
        return _Learnt(rows_M=rows, cells_M=first, hidden_GME=canvas.cache.first_hidden_GBE)

    def _draft(self, canvas: Canvas, grower: Grower, learnt: _Learnt, rows_A: Tensor, next_A: Tensor) -> Trees:
        wanted_M = torch.isin(learnt.rows_M, rows_A)
        rows_M, cells_M = learnt.rows_M[wanted_M], learnt.cells_M[wanted_M]
        tokens_M = canvas.tokens_BN[rows_M, cells_M]
        logits_AV, hidden_GAE = grower.learn(rows_M, cells_M, tokens_M, learnt.hidden_GME[:, wanted_M])
        return grower.grow(rows_A, next_A, logits_AV, hidden_GAE)

    def _verify(self, state: Slot, trees: Trees, rows_A: Tensor, next_B: Tensor) -> _Learnt:
        """One forward of the target, a walk per image; advances `next_B`."""
        canvas, next_A = state.canvas, next_B[rows_A]
        branches, answers_AT1 = _branches(trees, rows_A, next_A, canvas.cells)
        logits_MV, hidden_GME = canvas.explore(rows_A, next_A, branches)
        walks = walk(
            trees,
            answers_AT1,
            logits_MV,
            next_A=next_A,
            cells=canvas.cells,
            seeds_A=canvas.seeds_B[rows_A],
            side=canvas.scale.side,
            sampling=self._sampling,
            relaxation=self._relaxation,
        )
        canvas.place(rows_A[walks.images_M], walks.cells_M, walks.tokens_M)
        left_A = walks.gained_A > walks.accepted_A
        state.rejected_BN[rows_A[left_A], (next_A + walks.accepted_A)[left_A]] = True
        next_B[rows_A] += walks.gained_A
        for name, values_A in (("cycles", torch.ones_like(rows_A)), ("accepted", walks.accepted_A)):
            state.count(name, torch.zeros_like(next_B).index_copy_(0, rows_A, values_A))
        order_M = walks.images_M.argsort(stable=True)
        return _Learnt(
            rows_M=rows_A[walks.images_M[order_M]],
            cells_M=walks.cells_M[order_M],
            hidden_GME=hidden_GME[:, walks.queries_M[order_M]],
        )


def _branches(trees: Trees, rows_A: Tensor, next_A: Tensor, cells: int) -> tuple[Queries, Tensor]:
    """The valid nodes as queries; node t of image a sits on cell next + depth - 1 and borrows slot next + t.

    Beside them, which row of the answers belongs to which node: see `tree_walk.walk`.
    """
    image_M, node_M = trees.valid_BT.nonzero(as_tuple=True)
    rank_AT = trees.valid_BT.cumsum(1) - 1
    every_N = torch.arange(cells, device=next_A.device)
    seen_MN = every_N < next_A[image_M, None]
    path_MT = trees.ancestors_BTT()[image_M, node_M]
    at_M, on_M = path_MT.nonzero(as_tuple=True)
    seen_MN[at_M, (next_A[image_M, None] + rank_AT[image_M])[at_M, on_M]] = True
    queries = Queries(
        rows_M=rows_A[image_M],
        cells_M=next_A[image_M] + trees.depths_BT[image_M, node_M] - 1,
        tokens_M=trees.tokens_BT[image_M, node_M],
        slots_M=next_A[image_M] + rank_AT[image_M, node_M],
        seen_MN=seen_MN,
    )
    answers_AT1 = torch.zeros(len(rows_A), trees.valid_BT.shape[1] + 1, dtype=torch.int64, device=next_A.device)
    answers_AT1[:, 0] = torch.arange(len(rows_A), device=next_A.device)
    answers_AT1[image_M, node_M + 1] = len(rows_A) + torch.arange(len(image_M), device=next_A.device)
    return queries, answers_AT1

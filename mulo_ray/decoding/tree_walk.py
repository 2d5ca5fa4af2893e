"""Walks down verified trees: at each node the target draws the cell's token with the cell's own noise.

If the token is a child the walk goes there, else the token is emitted and the walk ends: the tokens are those of plain
decoding. Relaxed (LANTERN, arXiv 2410.03355): the walk also goes to a child in whose neighbourhood the drawn token
lies, as long as the neighbours' mass under the target stays within a bound, and emits that child's token instead.
Shape letters: A images, T nodes, V codebook entries, K neighbours. Knows no model and no cache.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mulo_ray.decoding.sampling import Sampling, log_probabilities, scores
from mulo_ray.decoding.tree_drafts import Trees

NEAR_TIE = 1e-3
"""A branch's logits differ from those of the cell itself by rounding (about 1e-6), since its path's keys lie elsewhere.
A draw that such a difference could turn is left to the next forward, where the cell has its own slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """Neighbours of a code count as the code, nearest first, while their mass stays at or below `delta` (LANTERN), or
    below (factor - 1) times the code's own (LANTERN++, arXiv 2502.06352) where `factor` is given."""

    neighbours_VK: Tensor  # nearest first, itself in front
    delta: float
    factor: float | None = None

    def near(self, logp_MV: Tensor, candidates_M: Tensor, drawn_M: Tensor) -> Tensor:
        """Whether the drawn token counts as the candidate. (M,) bool."""
        codes_MK = self.neighbours_VK[candidates_M]
        mass_MK = logp_MV.gather(-1, codes_MK).exp()
        bound_M = mass_MK[:, 0] * (self.factor - 1) if self.factor is not None else mass_MK.new_full((), self.delta)
        others_MK = mass_MK.clone()
        others_MK[:, 0] = 0
        within_MK = others_MK.cumsum(-1) <= bound_M[..., None]
        return ((codes_MK == drawn_M[:, None]) & within_MK).any(-1) | (candidates_M == drawn_M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walks:
    """What the walks emitted: image (place in the batch given), cell, token, and the query that predicted it."""

    images_M: Tensor
    cells_M: Tensor
    tokens_M: Tensor
    queries_M: Tensor
    gained_A: Tensor
    accepted_A: Tensor  # of these, tokens that stood in the tree


def walk(
    trees: Trees,
    answers_AT1: Tensor,
    logits_MV: Tensor,
    *,
    next_A: Tensor,
    cells: int,
    seeds_A: Tensor,
    side: int,
    sampling: Sampling,
    relaxation: Relaxation | None = None,
) -> Walks:
    """Emit at least one token per image. `answers_AT1[a, 0]` is the row of `logits_MV` that predicts cell `next_A[a]`,
    `answers_AT1[a, t + 1]` the one that predicts what follows node t."""
    at_A = torch.full_like(next_A, -1)  # the node each walk stands on
    going_A = next_A < cells
    emitted: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    accepted_A = torch.zeros_like(next_A)
    step = 0
    while bool(going_A.any()):
        images_M = going_A.nonzero(as_tuple=True)[0]
        cells_M, nodes_M = next_A[images_M] + step, at_A[images_M]
        queries_M = answers_AT1[images_M, nodes_M + 1]
        score_MV = scores(logits_MV[queries_M], sampling, seeds_A[images_M], side, cells_M)
        two_M2 = score_MV.topk(min(2, score_MV.shape[-1]), dim=-1)
        tokens_M = score_MV.argmax(-1)
        sure_M = (nodes_M < 0) | (two_M2.values[:, 0] - two_M2.values[:, -1] > NEAR_TIE)
        images_M, cells_M, nodes_M, queries_M = (t[sure_M] for t in (images_M, cells_M, nodes_M, queries_M))
        tokens_M = tokens_M[sure_M]
        children_MT = (trees.parents_BT[images_M] == nodes_M[:, None]) & trees.valid_BT[images_M]
        fits_MT = children_MT & (trees.tokens_BT[images_M] == tokens_M[:, None])
        if relaxation is not None:
            fits_MT = torch.where(
                fits_MT.any(1)[:, None],
                fits_MT,
                _near(relaxation, trees, children_MT, images_M, logits_MV[queries_M], tokens_M, sampling),
            )
        found_M = fits_MT.any(1)
        child_M = fits_MT.long().argmax(1)  # siblings stand best first
        tokens_M = torch.where(found_M, trees.tokens_BT[images_M, child_M], tokens_M)
        emitted.append((images_M, cells_M, tokens_M, queries_M))
        going_A = torch.zeros_like(going_A)
        going_A[images_M] = found_M
        accepted_A += going_A
        at_A[images_M] = child_M
        step += 1
    images_M, cells_M, tokens_M, queries_M = (torch.cat(parts) for parts in zip(*emitted, strict=True))
    gained_A = torch.bincount(images_M, minlength=len(next_A))
    return Walks(
        images_M=images_M,
        cells_M=cells_M,
        tokens_M=tokens_M,
        queries_M=queries_M,
        gained_A=gained_A,
        accepted_A=accepted_A,
    )


def _near(
    relaxation: Relaxation,
    trees: Trees,
    children_MT: Tensor,
    images_M: Tensor,
    logits_MV: Tensor,
    tokens_M: Tensor,
    sampling: Sampling,
) -> Tensor:
    """Children whose neighbourhood holds the token drawn. (M, T) bool."""
    logp_MV = log_probabilities(logits_MV, sampling)
    at_M, node_M = children_MT.nonzero(as_tuple=True)
    near_MT = torch.zeros_like(children_MT)
    near_MT[at_M, node_M] = relaxation.near(logp_MV[at_M], trees.tokens_BT[images_M[at_M], node_M], tokens_M[at_M])
    return near_MT

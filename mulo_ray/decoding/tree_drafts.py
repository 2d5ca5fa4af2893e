"""Draft trees: which continuations of an image a head holds likely (docs/method.md section 5).

Level by level the best few nodes are expanded by their best few tokens; of all candidates the best are kept. A node's
score is the sum of its path's log-probabilities (dynamic), or what its ranks alone are worth (static: the same shape
every time). Shape letters: B images, T nodes of a tree, K nodes or tokens per level, C candidates, S slots of the
head's cache, G guidance halves, E width. Knows no acceptance rule.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mulo_ray.decoding.interfaces import DraftHead, Queries
from mulo_ray.decoding.sampling import Sampling, log_probabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """`depth` levels at most, `top_k` nodes expanded per level into as many tokens each, `nodes` kept in the end."""

    depth: int
    top_k: int
    nodes: int
    static: bool = False

    @property
    def spare(self) -> int:
        """Slots that the head's cache needs behind those of the cells."""
        return max(1, (self.depth - 1) * self.top_k)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """One tree per image, parents before children, siblings best first. A parent of -1 is the image as it stands."""

    tokens_BT: Tensor
    parents_BT: Tensor
    depths_BT: Tensor  # 1 for children of the image as it stands
    valid_BT: Tensor

    def ancestors_BTT(self) -> Tensor:
        """[b, t, a]: whether node a lies on the way from the root to node t, t itself included."""
        batch, nodes = self.parents_BT.shape
        every_T = torch.arange(nodes, device=self.parents_BT.device)
        found_BTT = (every_T == every_T[:, None]).expand(batch, -1, -1)
        up_BT = self.parents_BT
        for _ in range(int(self.depths_BT.max()) - 1 if nodes else 0):
            found_BTT = found_BTT | ((every_T == up_BT[..., None]) & (up_BT >= 0)[..., None])
            up_BT = torch.where(up_BT >= 0, self.parents_BT.gather(1, up_BT.clamp(min=0)), -1)
        return found_BTT


@dataclass(slots=True, kw_only=True)
class _Level:
    """The nodes of one level that are to be expanded: per image and place their token, candidate number and path."""

    tokens_BK: Tensor
    numbers_BK: Tensor
    scores_BK: Tensor
    hidden_GBKE: Tensor
    seen_BKS: Tensor


class Grower:
    """Grows trees for the images of one micro-batch, with the head's cache of each."""

    def __init__(self, head: DraftHead, sampling: Sampling, options: TreeOptions, batch: int, cells: int) -> None:
        self._head, self._options, self._cells = head, options, cells
        # a greedy target needs the runners-up too, so its tree is grown from the softmax
        self._sampling = dataclasses.replace(sampling, temperature=1.0) if sampling.greedy else sampling
        self._cache: Any = head.start(batch, sampling.guidance, options.spare)
        self._batch = batch
        self.forwards_B = torch.zeros(batch, dtype=torch.int64)
        self.queries_B = self.forwards_B.clone()

    def learn(self, rows_M: Tensor, cells_M: Tensor, tokens_M: Tensor, hidden_GME: Tensor) -> tuple[Tensor, Tensor]:
        """Feed final cells with the hidden states that drew them, image by image in raster order; every image has one.

        Returns guided logits_AV and hidden states (G, A, E) after the last cell of each of the A images.
        """
        queries = Queries(rows_M=rows_M, cells_M=cells_M, tokens_M=tokens_M)
        logits_MV, out_GME = self._forward(queries, hidden_GME)
        last_M = torch.ones_like(rows_M, dtype=torch.bool)
        last_M[:-1] = rows_M[1:] != rows_M[:-1]
        return logits_MV[last_M], out_GME[:, last_M]

    def grow(self, rows_A: Tensor, next_A: Tensor, logits_AV: Tensor, hidden_GAE: Tensor) -> Trees:
        """Trees for the images `rows_A`, whose next cell is `next_A`; the rest as `learn` returned it.

        No node is put on the last cell: nothing follows it, so nothing is to be known about it.
        """
        options, width = self._options, self._options.top_k
        batch, codes = logits_AV.shape
        top_k = min(width, codes)
        scores_AK, tokens_AK = self._best(logits_AV, top_k)
        parents, depths = [torch.full_like(tokens_AK, -1)], [torch.ones_like(tokens_AK)]
        scores, tokens = [self._within(scores_AK, next_A, 1)], [tokens_AK]
        start_S = torch.arange(self._cells + options.spare, device=next_A.device)
        level = _Level(
            tokens_BK=tokens_AK,
            numbers_BK=torch.arange(top_k, device=next_A.device).expand(batch, -1),
            scores_BK=scores[0],
            hidden_GBKE=hidden_GAE[:, :, None].expand(-1, -1, top_k, -1),
            seen_BKS=(start_S < next_A[:, None])[:, None].expand(-1, top_k, -1),
        )
        for depth in range(2, options.depth + 1):
            if not bool((level.scores_BK > -math.inf).any()):
                break
            logits_AKV, out_GAKE, own_AKS = self._expand(rows_A, next_A, level, depth)
            scores_AKK, tokens_AKK = self._best(logits_AKV, top_k)
            scores_AC = self._within((level.scores_BK[..., None] + scores_AKK).flatten(1), next_A, depth)
            first = sum(part.shape[1] for part in tokens)
            parents.append(level.numbers_BK[..., None].expand(-1, -1, top_k).flatten(1))
            depths.append(torch.full_like(parents[-1], depth))
            scores.append(scores_AC)
            tokens.append(tokens_AKK.flatten(1))
            best_AK = scores_AC.sort(dim=1, descending=True, stable=True).indices[:, :width]
            from_AK = best_AK // top_k
            level = _Level(
                tokens_BK=tokens[-1].gather(1, best_AK),
                numbers_BK=first + best_AK,
                scores_BK=scores_AC.gather(1, best_AK),
                hidden_GBKE=torch.stack([_pick(half_AKE, from_AK) for half_AKE in out_GAKE]),
                seen_BKS=_pick(own_AKS, from_AK),
            )
        return self._select(
            tokens_AC=torch.cat(tokens, 1),
            parents_AC=torch.cat(parents, 1),
            depths_AC=torch.cat(depths, 1),
            scores_AC=torch.cat(scores, 1),
            next_A=next_A,
        )

    def _expand(self, rows_A: Tensor, next_A: Tensor, level: _Level, depth: int) -> tuple[Tensor, Tensor, Tensor]:
        """Feed a level's nodes: logits (A, K, V), hidden states and what a child of each sees in the head's cache."""
        fed_AK = level.scores_BK > -math.inf
        image_M, place_M = fed_AK.nonzero(as_tuple=True)
        width = fed_AK.shape[1]
        slots_M = self._cells + (depth - 2) * self._options.top_k + place_M
        queries = Queries(
            rows_M=rows_A[image_M],
            cells_M=next_A[image_M] + depth - 2,
            tokens_M=level.tokens_BK[image_M, place_M],
            slots_M=slots_M,
            seen_MN=level.seen_BKS[image_M, place_M],
        )
        logits_MV, out_GME = self._forward(queries, level.hidden_GBKE[:, image_M, place_M])
        logits_AKV = logits_MV.new_zeros(len(rows_A), width, logits_MV.shape[-1])
        logits_AKV[image_M, place_M] = logits_MV
        out_GAKE = out_GME.new_zeros(len(out_GME), len(rows_A), width, out_GME.shape[-1])
        out_GAKE[:, image_M, place_M] = out_GME
        own_AKS = level.seen_BKS.clone()
        own_AKS[image_M, place_M, slots_M] = True
        return logits_AKV, out_GAKE, own_AKS

    def _select(
        self, *, tokens_AC: Tensor, parents_AC: Tensor, depths_AC: Tensor, scores_AC: Tensor, next_A: Tensor
    ) -> Trees:
        """The best `nodes` candidates. Paths never gain on the way down, so with a node comes its parent."""
        kept = min(self._options.nodes, scores_AC.shape[1])
        order_AC = scores_AC.sort(dim=1, descending=True, stable=True).indices
        chosen_AT = order_AC[:, :kept].sort(dim=1).values
        number_AC = torch.zeros_like(order_AC).scatter(
            1, chosen_AT, torch.arange(kept, device=next_A.device).expand(len(next_A), -1)
        )
        old_AT = parents_AC.gather(1, chosen_AT)
        valid_AT = scores_AC.gather(1, chosen_AT) > -math.inf
        # a branch borrows the slot of a cell not drawn yet, of which there are ever fewer
        valid_AT &= valid_AT.cumsum(1) <= (self._cells - next_A)[:, None]
        return Trees(
            tokens_BT=tokens_AC.gather(1, chosen_AT),
            parents_BT=torch.where(old_AT >= 0, number_AC.gather(1, old_AT.clamp(min=0)), -1),
            depths_BT=depths_AC.gather(1, chosen_AT),
            valid_BT=valid_AT,
        )

    def _best(self, logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
        """Scores and tokens of the likeliest continuations, best first."""
        values, tokens = log_probabilities(logits, self._sampling).topk(top_k, dim=-1)
        if self._options.static:  # each rank is worth half of the one before it, whatever the head thinks
            ranks = torch.arange(1, top_k + 1, device=logits.device, dtype=values.dtype)
            values = torch.where(values > -math.inf, -ranks * math.log(2), -math.inf)
        return values, tokens

    def _within(self, scores_AC: Tensor, next_A: Tensor, depth: int) -> Tensor:
        """Nodes of this depth only where their cell is not the last one or beyond."""
        return scores_AC.masked_fill((next_A + depth >= self._cells)[:, None], -math.inf)

    def _forward(self, queries: Queries, hidden_GME: Tensor) -> tuple[Tensor, Tensor]:
        counts_B = torch.bincount(queries.rows_M, minlength=self._batch).cpu()
        self.forwards_B += counts_B > 0
        self.queries_B += counts_B
        return self._head.forward(self._cache, queries, hidden_GME)


def _pick(values_AKX: Tensor, places_AK: Tensor) -> Tensor:
    """values[a, places[a, k]]."""
    return values_AKX.gather(1, places_AK[..., None].expand(-1, -1, values_AKX.shape[-1]))

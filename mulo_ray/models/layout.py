"""How the ragged queries of one forward meet a cache: laid out as (R, Q), so that a row's keys are read once for all.

Batch invariance (docs/method.md section 7): query counts come out of a few buckets, from four on, and keys have full
length. With exact shapes both are as short as they can be, and rows in step take neither mask nor index.
Rows that no query is for are moved out of the way (`KVCache.front`) and not read: R counts the places in front.
Shape letters: R rows, M queries, Q queries per row, S slots, A heads, D head size. Knows no model.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.models.kv_cache import KVCache

MIN_ROWS = 16  # F.linear gives bit-equal rows from here on (float32, CPU)
_BUCKETS = (4, 8, 16)  # above: multiples of 64; on some CPUs 1, 2 and 3 queries have kernels of their own


def bucket(queries: int) -> int:
    """The query count that attention sees for at most `queries` of them."""
    return next((size for size in _BUCKETS if queries <= size), -(-queries // 64) * 64)


def filler(count: int, invariant: bool) -> int:
    """How many rows must join `count` for linear layers to give the bits they give in company."""
    return max(0, MIN_ROWS - count) if invariant else 0


class Layout:
    """`attend` writes every query's key and value at (row, slot), then attends; queries beyond the M of the layout are
    filler and get zeros.

    A query sees the slots up to its own that `visible_RS` does not hide; with `seen_MS` just the slots named there. It
    always sees its own.
    """

    def __init__(
        self,
        kv: KVCache,
        rows_M: Tensor,
        slots_M: Tensor,
        *,
        invariant: bool,
        visible_RS: Tensor | None = None,
        seen_MS: Tensor | None = None,
    ) -> None:
        total, self._count = kv.rows, len(rows_M)
        queries, rest = divmod(self._count, total)
        every_M = torch.arange(self._count, device=rows_M.device)
        # rows in step: image by image, as many queries each
        self._in_step = not rest and kv.in_order and torch.equal(rows_M, every_M // queries)
        if not self._in_step:
            total = kv.front(torch.bincount(rows_M, minlength=total) > 0)
            rows_M = kv.places(rows_M)
            visible_RS = None if visible_RS is None else kv.by_place(visible_RS, total)
            counts_R = torch.bincount(rows_M, minlength=total)
            order_M = torch.argsort(rows_M, stable=True)
            rank_M = torch.empty_like(rows_M)
            starts_R = counts_R.cumsum(0) - counts_R
            rank_M[order_M] = every_M - starts_R[rows_M[order_M]]
            queries = int(counts_R.max())
        self._kv, self._rows_M, self._slots_M = kv, rows_M, slots_M
        width = bucket(queries) if invariant else queries
        self._grid, self._queries = (total, width), queries
        self._place_M = None if self._in_step else rows_M * width + rank_M
        self._length = kv.slots if invariant else int(slots_M.max()) + 1
        plain = seen_MS is None and visible_RS is None
        alone = plain and self._in_step and width == 1 and not invariant
        self._slot = self._length - 1 if alone and int(slots_M.min()) + 1 == self._length else None
        self._bias_R1QS = None if self._slot is not None else self._bias(visible_RS, seen_MS)

    def attend(self, layer: int, q_MAD: Tensor, k_MAD: Tensor, v_MAD: Tensor) -> Tensor:
        """See `transformer.Attend`."""
        count, (total, width) = self._count, self._grid
        if self._slot is not None:
            self._kv.write_slot(layer, self._slot, k_MAD, v_MAD)
        else:
            self._kv.write(layer, self._rows_M, self._slots_M, k_MAD[:count], v_MAD[:count])
        heads = q_MAD.shape[1:]
        if self._place_M is None:
            q_RQAD = q_MAD[:count].view(total, self._queries, *heads)
            if width > self._queries:
                q_RQAD = F.pad(q_RQAD, (0, 0, 0, 0, 0, width - self._queries))
        else:
            dense = q_MAD.new_zeros(total * width, *heads)
            dense[self._place_M] = q_MAD[:count]
            q_RQAD = dense.view(total, width, *heads)
        keys_RSAD, values_RSAD = self._kv.stored(layer, total, self._length)
        out_RQAD = F.scaled_dot_product_attention(
            q_RQAD.transpose(1, 2),
            keys_RSAD.transpose(1, 2),
            values_RSAD.transpose(1, 2),
            attn_mask=self._bias_R1QS,
        ).transpose(1, 2)
        if self._place_M is None:
            out_MAD = out_RQAD[:, : self._queries].reshape(count, *heads)
        else:
            out_MAD = out_RQAD.reshape(total * width, *heads)[self._place_M]
        return F.pad(out_MAD, (0, 0, 0, 0, 0, len(q_MAD) - count)) if len(q_MAD) > count else out_MAD

    def _bias(self, visible_RS: Tensor | None, seen_MS: Tensor | None) -> Tensor:
        """0 where a query may look, -inf elsewhere. Places that no query took look somewhere, whatever it is."""
        slots_M, (total, width) = self._slots_M, self._grid
        every_S = torch.arange(self._length, device=slots_M.device)
        like, _ = self._kv.stored(0, 1, 1)
        if seen_MS is None:
            slots_RQ1 = self._dense(slots_M).view(total, width, 1)
            allowed_RQS = every_S <= slots_RQ1
            if visible_RS is not None:
                allowed_RQS = (allowed_RQS & visible_RS[:, None, : self._length]) | (every_S == slots_RQ1)
        else:
            seen_MS = seen_MS[:, : self._length]
            if visible_RS is not None:
                seen_MS = seen_MS & visible_RS[self._rows_M, : self._length]
            seen_MS = seen_MS | (every_S == slots_M[:, None])
            allowed_RQS = self._dense(seen_MS, fill=True).view(total, width, self._length)
        bias_RQS = torch.zeros(allowed_RQS.shape, dtype=like.dtype, device=like.device)
        return bias_RQS.masked_fill_(~allowed_RQS, -torch.inf)[:, None]

    def _dense(self, values_M: Tensor, fill: bool = False) -> Tensor:
        """One value or row per query -> per place of the grid (R * Q, ...)."""
        total, width = self._grid
        place_M = self._place_M
        if place_M is None:
            place_M = torch.arange(self._count, device=values_M.device) % self._queries + self._rows_M * width
        dense = values_M.new_full((total * width, *values_M.shape[1:]), fill)
        dense[place_M] = values_M
        return dense

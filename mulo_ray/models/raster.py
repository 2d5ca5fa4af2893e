"""A transformer body with its cache as a `decoding.interfaces.Scale`: prefill, ragged forwards, guidance.

Batch invariance (docs/method.md section 7) lives here: linear layers always see 16 rows or more, attention sees query
counts out of a few buckets and never one, and keys of full length. Off, shapes are exact.
Shape letters: B images, R rows (B, or 2B with guidance: conditional first), M queries, Q queries per row, S slots.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.decoding.interfaces import Condition, Queries
from mulo_ray.decoding.sampling import guide
from mulo_ray.models.kv_cache import KVCache
from mulo_ray.models.transformer import Transformer

_MIN_ROWS = 16  # F.linear gives bit-equal rows from here on (float32, CPU)
_BUCKETS = (2, 4, 8, 16)  # above: multiples of 64

Prefix = Callable[[Condition], Tensor]
"""Condition of B prompts -> prefix vectors (B, P, E)."""

VisiblePrefix = Callable[[Condition], Tensor]
"""Condition of B prompts -> bool (B, P): False hides a condition slot from all others, in both guidance halves."""


class RasterCache:
    """What `RasterScale.start` hands to `forward`: one micro-batch's keys and values."""

    def __init__(
        self, kv: KVCache, batch: int, guidance: float, first_logits_BV: Tensor, visible_RP: Tensor | None
    ) -> None:
        self.kv = kv
        self.visible_RP = visible_RP
        self.batch = batch
        self.guidance = guidance
        self.first_logits_BV = first_logits_BV


class RasterScale:
    """One grid size of a family. `unconditional` gives the prefix (1, P, E) that every prompt shares."""

    def __init__(
        self,
        body: Transformer,
        prefix: Prefix,
        unconditional: Callable[[], Tensor],
        *,
        batch_invariant: bool = True,
        visible: VisiblePrefix | None = None,
        codes: int | None = None,
    ) -> None:
        """`codes` are the entries of the codebook where the body's head is wider and cuts its logits to them."""
        self.body = body
        self.side = body.config.side
        self.codebook_size = body.config.vocab if codes is None else codes
        self._prefix, self._unconditional, self._visible = prefix, unconditional, visible
        self._invariant = batch_invariant

    @torch.inference_mode()
    def start(self, condition: Condition, guidance: float) -> RasterCache:
        """Prefill the condition slots.

        The unconditional prefix is computed once and copied to every row, unless each prompt hides slots of its own.
        """
        config = self.body.config
        prefix_BPE = self._prefix(condition)
        batch, guided = prefix_BPE.shape[0], guidance != 1.0
        visible_RP = None if self._visible is None else self._visible(condition)
        x_RPE, shared = prefix_BPE, 0
        if guided:
            shared = 1 if visible_RP is None else batch
            x_RPE = torch.cat([prefix_BPE, self._unconditional().expand(shared, -1, -1)])
            visible_RP = None if visible_RP is None else visible_RP.repeat(2, 1)
        repeats = -(-_MIN_ROWS // (len(x_RPE) * config.prefix)) if self._invariant else 1
        x_RPE = x_RPE.repeat(repeats, 1, 1)
        bias_R1PP = None if visible_RP is None else _prefix_bias(visible_RP.repeat(repeats, 1), x_RPE.dtype)
        stored: list[tuple[Tensor, Tensor]] = []

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            del layer
            stored.append((k, v))
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            causal = bias_R1PP is None
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias_R1PP, is_causal=causal).transpose(1, 2)

        hidden_RPE = self.body.body(x_RPE, torch.arange(config.prefix, device=x_RPE.device), attend)
        last_RE = hidden_RPE[:, -1]
        logits_RV = self.body.logits(F.pad(last_RE, (0, 0, 0, max(0, _MIN_ROWS - len(last_RE)))))
        order = torch.arange(batch, device=x_RPE.device)
        if guided:
            order = torch.cat([order, batch + (order if shared == batch else torch.zeros_like(order))])
        kv = KVCache(
            layers=config.layers,
            rows=len(order),
            slots=config.slots,
            heads=config.heads,
            head_dim=config.head_dim,
            like=x_RPE,
        )
        for layer, (keys, values) in enumerate(stored):
            kv.write_prefix(layer, keys[order], values[order])
        first = guide(logits_RV[:batch], logits_RV[batch : batch + shared] if guided else None, guidance)
        return RasterCache(kv, batch, guidance, first, visible_RP)

    @torch.inference_mode()
    def forward(self, cache: RasterCache, queries: Queries, visible_BN: Tensor | None = None) -> Tensor:
        """See `decoding.interfaces.Scale.forward`."""
        count, guided = len(queries.rows_M), cache.guidance != 1.0
        rows, slots, tokens = queries.rows_M, queries.cells_M + self.body.config.prefix, queries.tokens_M
        if guided:
            rows, slots, tokens = torch.cat([rows, rows + cache.batch]), slots.repeat(2), tokens.repeat(2)
        if self._invariant and len(rows) < _MIN_ROWS:
            padding = torch.zeros(_MIN_ROWS - len(rows), dtype=torch.int64, device=rows.device)
            rows, slots, tokens = (torch.cat([t, t[:1][padding]]) for t in (rows, slots, tokens))
        layout = _Layout(rows, slots, cache.kv, self._bucket, self._visible_slots(cache, visible_BN))
        hidden_ME = self.body.body(self.body.tok_embeddings(tokens), slots, layout.attend)
        logits = self.body.logits(hidden_ME)
        return guide(logits[:count], logits[count : 2 * count] if guided else None, cache.guidance)

    def _bucket(self, queries: int) -> int:
        if not self._invariant:
            return queries
        return next((size for size in _BUCKETS if queries <= size), -(-queries // 64) * 64)

    def _visible_slots(self, cache: RasterCache, visible_BN: Tensor | None) -> Tensor | None:
        visible_RN = visible_BN
        if visible_RN is not None and cache.guidance != 1.0:
            visible_RN = visible_RN.repeat(2, 1)
        if cache.visible_RP is None:
            return None if visible_RN is None else F.pad(visible_RN, (self.body.config.prefix, 0), value=True)
        if visible_RN is None:
            return F.pad(cache.visible_RP, (0, self.body.config.side**2), value=True)
        return torch.cat([cache.visible_RP, visible_RN], dim=1)


def _prefix_bias(visible_RP: Tensor, dtype: torch.dtype) -> Tensor:
    """Causal attention within the prefix, hidden slots apart; a hidden slot still sees itself."""
    places_P = torch.arange(visible_RP.shape[1], device=visible_RP.device)
    allowed_RPP = (places_P <= places_P[:, None]) & visible_RP[:, None, :] | (places_P == places_P[:, None])
    bias = torch.zeros(allowed_RPP.shape, dtype=dtype, device=visible_RP.device).masked_fill_(~allowed_RPP, -torch.inf)
    return bias[:, None]


class _Layout:
    """Ragged queries laid out as a dense (R, Q) grid for attention, so that a row's keys are read once per forward."""

    def __init__(
        self, rows_M: Tensor, slots_M: Tensor, kv: KVCache, bucket: Callable[[int], int], visible_RS: Tensor | None
    ) -> None:
        self._kv, self._rows_M, self._slots_M = kv, rows_M, slots_M
        total_rows = kv.keys_RSAD[0].shape[0]
        counts_R = torch.bincount(rows_M, minlength=total_rows)
        order_M = torch.argsort(rows_M, stable=True)
        rank_M = torch.empty_like(rows_M)
        starts_R = counts_R.cumsum(0) - counts_R
        rank_M[order_M] = torch.arange(len(rows_M), device=rows_M.device) - starts_R[rows_M[order_M]]
        self._width = bucket(int(counts_R.max()))
        self._grid = (total_rows, self._width)
        self._place_M = rows_M * self._width + rank_M
        slots_RQ = torch.zeros(total_rows * self._width, dtype=torch.int64, device=rows_M.device)
        slots_RQ[self._place_M] = slots_M
        slots_RQ1 = slots_RQ.view(*self._grid, 1)
        every_S = torch.arange(kv.slots, device=rows_M.device)
        allowed_RQS = every_S <= slots_RQ1
        if visible_RS is not None:
            allowed_RQS = (allowed_RQS & visible_RS[:, None, :]) | (every_S == slots_RQ1)
        like = kv.keys_RSAD[0]
        self._bias_RQS = torch.zeros(allowed_RQS.shape, dtype=like.dtype, device=like.device).masked_fill_(
            ~allowed_RQS, -torch.inf
        )

    def attend(self, layer: int, q_MAD: Tensor, k_MAD: Tensor, v_MAD: Tensor) -> Tensor:
        self._kv.write(layer, self._rows_M, self._slots_M, k_MAD, v_MAD)
        q_dense = q_MAD.new_zeros(self._grid[0] * self._width, *q_MAD.shape[1:])
        q_dense[self._place_M] = q_MAD
        out_RAQD = F.scaled_dot_product_attention(
            q_dense.view(*self._grid, *q_MAD.shape[1:]).transpose(1, 2),
            self._kv.keys_RSAD[layer].transpose(1, 2),
            self._kv.values_RSAD[layer].transpose(1, 2),
            attn_mask=self._bias_RQS[:, None],
        )
        return out_RAQD.transpose(1, 2).reshape(self._grid[0] * self._width, *q_MAD.shape[1:])[self._place_M]

"""A transformer body with its cache as a `decoding.interfaces.Scale`: prefill, ragged forwards, guidance.

Batch invariance (docs/method.md section 7) lives here and in layout.py: linear layers always see 16 rows or more. Off,
shapes are exact.
Shape letters: B images, R rows (B, or 2B with guidance: conditional first), M queries, Q queries per row, S slots.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.decoding.interfaces import Condition, Queries
from mulo_ray.decoding.sampling import guide
from mulo_ray.models.kv_cache import KVCache
from mulo_ray.models.layout import MIN_ROWS, Layout, filler
from mulo_ray.models.transformer import Transformer

Prefix = Callable[[Condition], Tensor]
"""Condition of B prompts -> prefix vectors (B, P, E)."""

VisiblePrefix = Callable[[Condition], Tensor]
"""Condition of B prompts -> bool (B, P): False hides a condition slot from all others, in both guidance halves."""


class RasterCache:
    """What `RasterScale.start` hands to `forward`: one micro-batch's keys and values."""

    def __init__(
        self,
        kv: KVCache,
        batch: int,
        guidance: float,
        first_logits_BV: Tensor,
        first_hidden_GBE: Tensor,
        visible_RP: Tensor | None,
    ) -> None:
        self.kv = kv
        self.visible_RP = visible_RP
        self.batch = batch
        self.guidance = guidance
        self.first_logits_BV = first_logits_BV
        self.first_hidden_GBE = first_hidden_GBE


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
        repeats = -(-MIN_ROWS // (len(x_RPE) * config.prefix)) if self._invariant else 1
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
        logits_RV = self.body.logits(F.pad(last_RE, (0, 0, 0, max(0, MIN_ROWS - len(last_RE)))))
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
        last_GBE = last_RE[order].view(2 if guided else 1, batch, -1)
        return RasterCache(kv, batch, guidance, first, last_GBE, visible_RP)

    @torch.inference_mode()
    def forward(self, cache: RasterCache, queries: Queries, visible_BN: Tensor | None = None) -> Tensor:
        """See `decoding.interfaces.Scale.forward`."""
        return self.forward_features(cache, queries, visible_BN)[0]

    @torch.inference_mode()
    def forward_features(
        self, cache: RasterCache, queries: Queries, visible_BN: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `decoding.interfaces.FeatureScale.forward_features`."""
        config, guided = self.body.config, cache.guidance != 1.0
        count = len(queries.rows_M)
        answers = count if queries.answers is None else queries.answers
        rows, tokens = queries.rows_M, queries.tokens_M
        places = queries.cells_M + config.prefix
        slots = places if queries.slots_M is None else queries.slots_M + config.prefix
        seen = None if queries.seen_MN is None else F.pad(queries.seen_MN, (config.prefix, 0), value=True)
        if guided:
            rows, slots, tokens = torch.cat([rows, rows + cache.batch]), slots.repeat(2), tokens.repeat(2)
            places, seen = places.repeat(2), None if seen is None else seen.repeat(2, 1)
        layout = Layout(
            cache.kv,
            rows,
            slots,
            invariant=self._invariant,
            visible_RS=self._visible_slots(cache, visible_BN),
            seen_MS=seen,
        )
        more = filler(len(rows), self._invariant)
        x_ME = self.body.tok_embeddings(F.pad(tokens, (0, more)) if more else tokens)
        hidden_ME = self.body.body(x_ME, F.pad(places, (0, more)) if more else places, layout.attend)
        halves = hidden_ME[: len(rows)].view(2 if guided else 1, count, -1)
        if answers < count:
            hidden_ME = halves[:, :answers].flatten(0, 1)
            hidden_ME = F.pad(hidden_ME, (0, 0, 0, filler(len(hidden_ME), self._invariant)))
        logits = self.body.logits(hidden_ME)
        guide_from = logits[answers : 2 * answers] if guided else None
        return guide(logits[:answers], guide_from, cache.guidance), halves

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

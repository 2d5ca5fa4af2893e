"""The EAGLE head: one transformer layer that guesses a scale's next hidden state, and runs as a draft head.

Its input at a cell is that cell's token embedding beside the hidden state that drew it; embeddings, final norm and
output layer are the scale's own, frozen. It attends over cells only: what the condition says is in the hidden states.
Shape letters: B images, R rows (B, or 2B with guidance), M queries, N cells, G guidance halves, E width. Knows no tree.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.decoding.interfaces import Queries
from mulo_ray.decoding.sampling import guide
from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.kv_cache import KVCache
from mulo_ray.models.layout import Layout, filler
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.transformer import Attend, Block, Transformer, TransformerConfig


class EagleHead(nn.Module):
    """Linear 2E -> E and one block. Holds what is trained; the scale's body is handed in."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.project = nn.Linear(2 * config.dim, config.dim, bias=False)
        self.block = Block(config)
        nn.init.zeros_(self.block.attention.wo.weight)
        nn.init.zeros_(self.block.feed_forward.w2.weight)
        with torch.no_grad():  # begins as "the hidden state stays": the second half passes through
            self.project.weight.zero_()
            self.project.weight[:, config.dim :] = torch.eye(config.dim)

    def forward(self, embedded: Tensor, hidden: Tensor, rotary: Tensor | None, attend: Attend) -> Tensor:
        """Embedded tokens (..., E) and the hidden states before them (..., E) -> guesses of the next ones (..., E)."""
        x = self.project(torch.cat([embedded, hidden], dim=-1))
        return self.block(x, rotary, 0, attend)  # type: ignore[no-any-return]


def head_rotary(body: Transformer, cells: Tensor) -> Tensor | None:
    """A head turns its queries and keys as the body does at the same cells."""
    return None if body.rotary_SD2 is None else body.rotary_SD2[cells + body.config.prefix]


def load_head(path: Path, scale: RasterScale, *, batch_invariant: bool) -> "EagleDraftHead":
    """The head in a file, on the scale it was trained for. Raises CheckpointError when the file does not fit."""
    head = EagleHead(scale.body.config)
    fill(head, load_tensors(path), path.name)
    weight = scale.body.norm.weight
    return EagleDraftHead(head.to(weight.device, weight.dtype), scale.body, batch_invariant=batch_invariant)


@dataclass(frozen=True, slots=True)
class _Cache:
    kv: KVCache
    batch: int
    guidance: float


class EagleDraftHead:
    """A trained head over its scale's body, as `decoding.interfaces.DraftHead`."""

    def __init__(self, head: EagleHead, body: Transformer, *, batch_invariant: bool = True) -> None:
        self.head, self.body = head, body
        self._invariant = batch_invariant

    def start(self, batch: int, guidance: float, spare: int) -> _Cache:
        """See `decoding.interfaces.DraftHead.start`."""
        config = self.body.config
        kv = KVCache(
            layers=1,
            rows=batch if guidance == 1.0 else 2 * batch,
            slots=config.side**2 + spare,
            heads=config.heads,
            head_dim=config.head_dim,
            like=self.head.project.weight,
        )
        return _Cache(kv, batch, guidance)

    @torch.inference_mode()
    def forward(self, cache: _Cache, queries: Queries, hidden_GME: Tensor) -> tuple[Tensor, Tensor]:
        """See `decoding.interfaces.DraftHead.forward`."""
        count, guided = len(queries.rows_M), cache.guidance != 1.0
        rows, cells, tokens = queries.rows_M, queries.cells_M, queries.tokens_M
        slots = cells if queries.slots_M is None else queries.slots_M
        seen = queries.seen_MN
        if guided:
            rows = torch.cat([rows, rows + cache.batch])
            cells, tokens, slots = (t.repeat(2) for t in (cells, tokens, slots))
            seen = None if seen is None else seen.repeat(2, 1)
        layout = Layout(cache.kv, rows, slots, invariant=self._invariant, seen_MS=seen)
        more = filler(len(rows), self._invariant)
        embedded = self.body.tok_embeddings(F.pad(tokens, (0, more)))
        given = F.pad(hidden_GME.flatten(0, 1), (0, 0, 0, more))
        out_ME = self.head(embedded, given, head_rotary(self.body, F.pad(cells, (0, more))), layout.attend)
        logits = self.body.logits(out_ME)
        guessed = guide(logits[:count], logits[count : 2 * count] if guided else None, cache.guidance)
        return guessed, out_ME[: len(rows)].view(len(hidden_GME), count, -1)

"""The network of one emoji scale: word slots -> prefix vectors -> the common transformer body.

Shape letters: B captions, P word slots, E width. Knows no cache, no file.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mulo_ray.models.text import BUCKETS, SLOTS
from mulo_ray.models.transformer import Transformer, TransformerConfig

STRIDE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EmojiSizes:
    """What may differ from scale to scale; the family's card states it. The defaults are those of cards that do not."""

    layers: int = 6
    text_dim: int = 64


def default_sizes(px: int) -> EmojiSizes:
    """What a scale is trained with: sixteen cells need fewer layers."""
    return EmojiSizes(layers=4 if px <= 32 else 6, text_dim=48)


def emoji_config(px: int, vocab: int = 1024, layers: int = 6) -> TransformerConfig:
    """The body of every emoji scale: 192 wide, 6 heads, a side of px / 8 cells."""
    return TransformerConfig(
        dim=192, layers=layers, heads=6, vocab=vocab, side=px // STRIDE, prefix=SLOTS, condition_rotation="unit"
    )


class WordSlots(nn.Module):
    """Hashed word and letter-group ids (B, P, 1 + G) -> prefix vectors (B, P, E); an empty place has its own vector."""

    def __init__(self, dim: int, text_dim: int) -> None:
        super().__init__()
        self.word = nn.Embedding(BUCKETS + 1, text_dim, padding_idx=BUCKETS)
        self.gram = nn.Embedding(BUCKETS + 1, text_dim, padding_idx=BUCKETS)
        self.project = nn.Linear(text_dim, dim, bias=False)
        self.place = nn.Parameter(torch.zeros(SLOTS, dim))
        self.empty = nn.Parameter(torch.randn(dim) * 0.5)

    def forward(self, ids_BPG: Tensor) -> Tensor:
        grams = ids_BPG[..., 1:]
        filled = (grams != BUCKETS).sum(-1, keepdim=True).clamp(min=1)
        vectors = self.word(ids_BPG[..., 0]) + 2 * self.gram(grams).sum(-2) / filled
        x = self.project(vectors)
        return torch.where((ids_BPG[..., 1] == BUCKETS)[..., None], self.empty, x) + self.place


class EmojiNetwork(nn.Module):
    """Text side and body of one scale."""

    def __init__(self, config: TransformerConfig, text_dim: int = 64) -> None:
        super().__init__()
        self.text = WordSlots(config.dim, text_dim)
        self.body = Transformer(config)

    def forward(self, ids_BPG: Tensor, tokens_BN: Tensor) -> Tensor:
        """Teacher-forced logits (B, N, V)."""
        return self.body(self.text(ids_BPG), tokens_BN)  # type: ignore[no-any-return]

    def unconditional(self) -> Tensor:
        """The prefix (1, P, E) of no caption: every slot empty."""
        return (self.text.empty + self.text.place)[None]

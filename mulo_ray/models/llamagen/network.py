"""The network of one LlamaGen scale: the common body under the published names, and what makes its condition slots.

Shape letters: B prompts, P condition slots, C caption feature size, E width. Knows no cache, no file.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.models.llamagen.config import LlamaGenConfig
from mulo_ray.models.transformer import Transformer, TransformerConfig

IGNORABLE = (r"freqs_cis",)  # a table of positions that some files carry


class _Labels(nn.Module):
    """Class numbers -> one slot; the last row is that of no class."""

    def __init__(self, classes: int, dim: int) -> None:
        super().__init__()
        self.embedding_table = nn.Embedding(classes + 1, dim)

    def forward(self, labels_B: Tensor) -> Tensor:
        return self.embedding_table(labels_B)[:, None]  # type: ignore[no-any-return]


class _Projection(nn.Module):
    def __init__(self, caption_dim: int, dim: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(caption_dim, dim, bias=False)
        self.fc2 = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))  # type: ignore[no-any-return]


class _Captions(nn.Module):
    """T5 features -> slots. `uncond_embedding` are the features of no caption: random when training began, never
    trained, so they must come from the file."""

    uncond_embedding: Tensor

    def __init__(self, config: LlamaGenConfig) -> None:
        super().__init__()
        self.cap_proj = _Projection(config.caption_dim, config.dim)
        self.register_buffer("uncond_embedding", torch.zeros(config.caption_tokens, config.caption_dim))

    def forward(self, features_BPC: Tensor) -> Tensor:
        return self.cap_proj(features_BPC)  # type: ignore[no-any-return]


class LlamaGenNetwork(Transformer):
    """A body whose parameter names are those of the published files, `cls_embedding` included."""

    def __init__(self, config: LlamaGenConfig, side: int) -> None:
        super().__init__(body_config(config, side))
        self.kind = config.kind
        self.codes = config.vq.codes
        self.no_class = config.classes
        self.cls_embedding = _Captions(config) if config.kind == "t2i" else _Labels(config.classes, config.dim)

    def prefix(self, condition: Tensor) -> Tensor:
        """Left-padded features (B, P, C) or labels (B,) -> condition slots (B, P, E)."""
        return self.cls_embedding(condition.to(self.norm.weight.device))  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of the codes there are; a head may have more rows (docs/reports.md A7)."""
        return super().logits(hidden)[..., : self.codes]

    def unconditional(self) -> Tensor:
        """Slots (1, P, E) of no caption or no class."""
        if isinstance(self.cls_embedding, _Captions):
            return self.prefix(self.cls_embedding.uncond_embedding[None])
        return self.prefix(torch.tensor([self.no_class]))


def body_config(config: LlamaGenConfig, side: int) -> TransformerConfig:
    """The common body at a LlamaGen size: condition slots have queries and keys of zero, as the official table does."""
    return TransformerConfig(
        dim=config.dim,
        layers=config.layers,
        heads=config.heads,
        vocab=config.vocab,
        side=side,
        prefix=config.prefix,
        condition_rotation="zero",
    )


def meta_network(config: LlamaGenConfig, side: int) -> LlamaGenNetwork:
    """The network without memory for its weights; `checkpoint.fill` gives it some."""
    with torch.device("meta"):
        return LlamaGenNetwork(config, side)

"""The network of one AR-DTok: the common body with a table of absolute positions, and what makes its condition slots.

Shape letters: B pictures, P condition slots, C semantic feature size, E width. Knows no cache, no file.
"""

import torch
from torch import Tensor, nn

from mulo_ray.models.raster import RasterScale
from mulo_ray.models.tar.config import TarConfig
from mulo_ray.models.transformer import Transformer, TransformerConfig


class TarNetwork(Transformer):
    """A body whose parameter names are those of the published files."""

    def __init__(self, config: TarConfig, side: int) -> None:
        super().__init__(
            TransformerConfig(
                dim=config.dim,
                layers=config.layers,
                heads=config.heads,
                vocab=config.vocab,
                side=side,
                prefix=config.prefix,
                positions="absolute",
            )
        )
        # With a coarser semantic grid the image's cells move up in the same table, as in the official code.
        self.abs_pe = nn.Parameter(torch.zeros(1, config.trained_prefix + side**2 - 1, config.dim))
        self.clip_proj = nn.Linear(config.semantic_sizes.hidden, config.dim)
        self.codes = config.vq.codes

    def prefix(self, features_BPC: Tensor) -> Tensor:
        """Semantic features -> condition slots (B, P, E), one picture at a time: no slot depends on the company."""
        weight = self.clip_proj.weight
        features_BPC = features_BPC.to(weight.device, weight.dtype)
        return torch.cat([self.clip_proj(one) for one in features_BPC.split(1)])

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of the codes there are; a head may have more rows (docs/reports.md A7)."""
        return super().logits(hidden)[..., : self.codes]

    def unconditional(self) -> Tensor:
        """Slots (1, P, E) of no picture: features of zero leave the projection's bias."""
        return self.prefix(torch.zeros(1, self.config.prefix, self.clip_proj.in_features))


def meta_network(config: TarConfig, side: int) -> TarNetwork:
    """The network without memory for its weights; `checkpoint.fill` gives it some."""
    with torch.device("meta"):
        return TarNetwork(config, side)


def raster_scale(network: TarNetwork, *, batch_invariant: bool) -> RasterScale:
    """A network as a scale; its conditions are {"features_BPC"}."""
    return RasterScale(
        network,
        lambda condition: network.prefix(condition["features_BPC"]),
        network.unconditional,
        batch_invariant=batch_invariant,
        codes=network.codes,
    )

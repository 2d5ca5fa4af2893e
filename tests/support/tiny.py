"""A pair of tiny random models of one family: 4x4 and 8x8 cells, 64 codes. Real classes, seeded weights."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mulo_ray.decoding.interfaces import Request
from mulo_ray.decoding.mulo import MuloDrafter, MuloOptions, MuloTarget
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.verification import neighbour_table
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.rescaler import PixelResampler
from mulo_ray.models.transformer import Transformer, TransformerConfig
from mulo_ray.models.vq import VQ, VQConfig
from mulo_ray.seeding import image_seed

CODES, PREFIX, DIM = 64, 3, 32


class TinyModel(nn.Module):
    """A conditional body: the condition is a class number, its prefix a table row; the last is unconditional."""

    def __init__(self, side: int, positions: str = "rope") -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(8, PREFIX, DIM))
        self.body = Transformer(
            TransformerConfig(
                dim=DIM,
                layers=2,
                heads=2,
                vocab=CODES,
                side=side,
                prefix=PREFIX,
                ffn_multiple=32,
                positions=positions,
                condition_rotation="unit",
            )
        )
        for name, parameter in self.body.named_parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.5 if "output" in name else 0.25)


@dataclass
class Tiny:
    """The two models, their scales and their tokenizer."""

    low: TinyModel
    high: TinyModel
    vq: VQ

    def scale(self, which: str, *, batch_invariant: bool = True) -> RasterScale:
        model = self.low if which == "low" else self.high
        return RasterScale(
            model.body,
            lambda condition: model.table[condition["labels"]],
            lambda: model.table[7:8],
            batch_invariant=batch_invariant,
        )

    def drafter(self, sampling: Sampling, rows: int = 4, window: int = 2) -> MuloDrafter:
        return MuloDrafter(self.scale("low"), sampling, rows_per_cycle=rows, window=window)

    def target(
        self, sampling: Sampling, *, rows: int = 4, k: int = 4, resampler: object = None, **options: object
    ) -> MuloTarget:
        values = {"tau": 0.05, "radius": 1, "redraw": "islands", "window": 2, "refresh_cache": False, **options}
        return MuloTarget(
            self.scale("high"),
            sampling,
            resampler or PixelResampler(self.vq, 2),
            MuloOptions(neighbours_VK=neighbour_table(self.vq.codebook, k), rows_per_cycle=rows, **values),
        )


def tiny(seed: int = 0, positions: str = "rope") -> Tiny:
    """Both models of the pair, in float32."""
    torch.manual_seed(seed)
    pair = Tiny(
        low=TinyModel(4, positions),
        high=TinyModel(8, positions),
        vq=VQ(VQConfig(codebook_size=CODES, wide=16, deep=16, blocks=1)),
    )
    for module in (pair.low, pair.high, pair.vq):
        module.requires_grad_(False).eval()
    return pair


def request(batch: int, seed: int = 0, first: int = 0) -> Request:
    """Images `first`..: image i has label i mod 7 and the seed of key "i"."""
    numbers = range(first, first + batch)
    return Request(
        condition={"labels": torch.tensor([i % 7 for i in numbers])},
        seeds_B=torch.tensor([image_seed(seed, str(i), 0) for i in numbers]),
    )


def teacher_forced(model: TinyModel, labels: Tensor, tokens_BN: Tensor) -> Tensor:
    """Logits of every cell without any cache."""
    return model.body(model.table[labels], tokens_BN)

"""Sizes and file names of the published LlamaGen models; their files state neither. Knows no torch.

A `family.json` beside the weights replaces single values: that is how a model of other sizes is told.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mulo_ray.models.memory import FamilyMemory, ScaleMemory
from mulo_ray.models.official_config import Reader, read_vq
from mulo_ray.models.vq_sizes import PARAMETERS, VQ_16, VQSizes

T5_XL_ENCODER_PARAMETERS = 1_223_527_424


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFiles:
    """The files of one scale, by name inside the weights folder."""

    weights: str
    tokenizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaGenConfig:
    """One family: bodies of one size at several image sides, one tokenizer, one way to condition."""

    kind: Literal["c2i", "t2i"]
    dim: int
    layers: int
    heads: int
    scales: Mapping[int, ScaleFiles]  # by image side in pixels
    vq: VQSizes = VQ_16
    vocab: int = 16_384
    classes: int = 1000
    caption_dim: int = 2048
    caption_tokens: int = 120
    text: str = "flan-t5-xl"  # folder of the T5 encoder and its tokenizer inside the weights folder
    text_hub: str = "google/flan-t5-xl"  # where it comes from when that folder is absent
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def prefix(self) -> int:
        """Condition slots."""
        return self.caption_tokens if self.kind == "t2i" else 1

    @property
    def _flan_xl(self) -> bool:
        return self.caption_dim == 2048

    @property
    def text_folder(self) -> str | None:
        """See `models.official_config.OfficialConfig`, as of the next two."""
        return self.text if self.kind == "t2i" else None

    def scale_files(self) -> dict[int, str]:
        return {px: files.weights for px, files in self.scales.items()}

    def other_files(self) -> list[str]:
        return [files.tokenizer for files in self.scales.values()]

    def side(self, px: int) -> int:
        """Cells per row."""
        return px // self.vq.stride

    def memory(self) -> FamilyMemory:
        """What a plan needs."""
        ffn = math.ceil(int(8 * self.dim / 3) / 256) * 256
        block = 4 * self.dim**2 + 3 * self.dim * ffn + 2 * self.dim
        condition = (self.classes + 1) * self.dim
        if self.kind == "t2i":
            condition = self.caption_tokens * self.caption_dim + self.dim * (self.caption_dim + self.dim)
        parameters = condition + 2 * self.vocab * self.dim + self.layers * block + self.dim
        sizes = {
            px: ScaleMemory(
                parameters=parameters,
                layers=self.layers,
                dim=self.dim,
                prefix=self.prefix,
                side=self.side(px),
                vocab=self.vocab,
            )
            for px in self.scales
        }
        return FamilyMemory(
            scales=sizes,
            tokenizer_parameters=PARAMETERS.get(self.vq, 0),
            tokenizer_channels=self.vq.channels,
            conditioners={"T5 encoder": T5_XL_ENCODER_PARAMETERS} if self.kind == "t2i" and self._flan_xl else {},
        )


_SIZES = {"b": (768, 12, 12), "l": (1024, 24, 16), "xl": (1280, 36, 20), "xxl": (1536, 48, 24), "3b": (3200, 24, 32)}
_FILE_SIZES = {"b": "B", "l": "L", "xl": "XL", "xxl": "XXL", "3b": "3B"}
_C2I_SIDES = {"b": (256, 384), "l": (256, 384), "xl": (384,), "xxl": (384,), "3b": (384,)}


def _class_conditional(size: str) -> LlamaGenConfig:
    dim, layers, heads = _SIZES[size]
    files = {
        px: ScaleFiles(weights=f"c2i_{_FILE_SIZES[size]}_{px}.pt", tokenizer="vq_ds16_c2i.pt")
        for px in _C2I_SIDES[size]
    }
    # The official demo: guidance 4 and top-k 2000.
    return LlamaGenConfig(
        kind="c2i", dim=dim, layers=layers, heads=heads, scales=files, defaults={"guidance": 4.0, "top_k": 2000}
    )


def _text_conditional() -> LlamaGenConfig:
    dim, layers, heads = _SIZES["xl"]
    return LlamaGenConfig(
        kind="t2i",
        dim=dim,
        layers=layers,
        heads=heads,
        scales={
            256: ScaleFiles(weights="t2i_XL_stage1_256.pt", tokenizer="vq_ds16_t2i.pt"),
            512: ScaleFiles(weights="t2i_XL_stage2_512.pt", tokenizer="vq_ds16_t2i.pt"),
        },
        defaults={"guidance": 7.5, "top_k": 1000},
    )


CONFIGS = {f"llamagen-c2i-{size}": _class_conditional(size) for size in _SIZES} | {
    "llamagen-t2i-xl": _text_conditional()
}

READERS: dict[str, Reader] = {
    "scales": lambda value, published: {int(px): ScaleFiles(**files) for px, files in value.items()},
    "vq": read_vq,
}
"""How `family.json` states what is more than a number or a word."""

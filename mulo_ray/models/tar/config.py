"""Sizes and file names of the published Tar models. Knows no torch.

Tar says a picture in two languages: Qwen2 writes codes of TA-Tok, one per patch of a small semantic grid, and AR-DTok
reads them as its condition and writes codes of the image tokenizer. A `family.json` beside the weights replaces single
values: that is how a model of other sizes is told.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mulo_ray.models.memory import FamilyMemory, ScaleMemory
from mulo_ray.models.official_config import Reader, read_vq
from mulo_ray.models.vq_sizes import PARAMETERS, VQ_16, VQSizes

LANGUAGE_ROWS = 16
"""Prompts of every forward of the language model, filled up where there are fewer: from 16 rows on, a linear layer's
results do not depend on how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticSizes:
    """TA-Tok's decoding half. Its file states all but `heads` by its shapes, so these matter where there is no file."""

    codes: int = 65_536
    code_dim: int = 1536
    hidden: int = 1152
    layers: int = 3
    heads: int = 12
    ffn: int = 3072
    positions: int = 256
    normalised: bool = True  # codes are unit vectors

    @property
    def parameters(self) -> int:
        """Numbers that decoding keeps: the table of codes, ready to use, and the network behind it."""
        block = 4 * self.hidden * (self.hidden + 1) + 2 * self.hidden * self.ffn + self.ffn + 5 * self.hidden
        ends = (2 * self.code_dim + self.hidden) * (self.code_dim + 1) + 2 * self.hidden
        task = 2 * self.hidden * (self.hidden + 1)
        return self.codes * self.code_dim + self.layers * block + ends + task + self.positions * self.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSizes:
    """Qwen2 with the words of pictures behind its own. A real folder states these itself; they serve plans and random
    weights."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    tied: bool  # one table for words in and out
    words: int = 151_665  # of the base tokenizer; <im_start>, <im_end>, <S0> to <S2>, <I0> and so on come after

    def parameters(self, vocab: int) -> int:
        """Of a model with `vocab` words."""
        kv = self.hidden // self.heads * self.kv_heads
        attention = 2 * self.hidden**2 + self.hidden + 2 * kv * (self.hidden + 1)
        block = attention + 3 * self.hidden * self.ffn + 2 * self.hidden
        return vocab * self.hidden * (1 if self.tied else 2) + self.layers * block + self.hidden

    def kv_numbers(self) -> int:
        """Keys and values of one word."""
        return 2 * self.layers * self.hidden // self.heads * self.kv_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class TarConfig:
    """One family: AR-DTok bodies of one size at several image sides, one tokenizer, TA-Tok and a language model."""

    language: str  # folder of the language model and its tokenizer inside the weights folder
    language_hub: str  # where it comes from when that folder is absent
    language_sizes: LanguageSizes
    dim: int = 1280
    layers: int = 30
    heads: int = 20
    scales: Mapping[int, str]  # image side in pixels -> file of an AR-DTok
    tokenizer: str = "vq_ds16_t2i.pt"
    vq: VQSizes = VQ_16
    vocab: int = 16_384
    semantic: str = "ta_tok.pth"
    semantic_sizes: SemanticSizes = SemanticSizes()
    semantic_sides: tuple[int, ...] = (27, 13, 9)  # cells per row of the semantic grid; the first is AR-DTok's own
    semantic_scale: int = 0  # which of them: the S0, S1, S2 of the prompt
    prompt_tokens: int = 384  # every prompt is padded to this length, its template included
    language_sampling: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: {"temperature": 1.0, "top_k": 1200, "top_p": 0.95}
    )
    repetition_penalty: float = 1.0
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"guidance": 4.0, "top_k": 0})

    @property
    def prefix(self) -> int:
        """Semantic codes of a picture: condition slots of every scale."""
        return self.semantic_sides[self.semantic_scale] ** 2

    @property
    def trained_prefix(self) -> int:
        """Condition slots in AR-DTok's table of positions; fewer in use leave the end of the table idle."""
        return self.semantic_sides[0] ** 2

    @property
    def vocabulary(self) -> int:
        """Words of the language model, those of pictures included."""
        return self.language_sizes.words + 2 + len(self.semantic_sides) + self.semantic_sizes.codes

    @property
    def text_folder(self) -> str | None:
        """See `models.official_config.OfficialConfig`, as of the next two."""
        return self.language

    def scale_files(self) -> dict[int, str]:
        return dict(self.scales)

    def other_files(self) -> list[str]:
        return [self.tokenizer, self.semantic]

    def side(self, px: int) -> int:
        """Cells per row."""
        return px // self.vq.stride

    def scale_parameters(self, px: int) -> int:
        """Numbers of one AR-DTok."""
        ffn = math.ceil(int(8 * self.dim / 3) / 256) * 256
        block = 4 * self.dim**2 + 3 * self.dim * ffn + 2 * self.dim
        condition = self.dim * (self.semantic_sizes.hidden + 1)
        places = (self.trained_prefix + self.side(px) ** 2 - 1) * self.dim
        return condition + places + 2 * self.vocab * self.dim + self.layers * block + self.dim

    def memory(self) -> FamilyMemory:
        """What a plan needs: every role holds TA-Tok beside its scale."""
        sizes = {
            px: ScaleMemory(
                parameters=self.scale_parameters(px) + self.semantic_sizes.parameters,
                layers=self.layers,
                dim=self.dim,
                prefix=self.prefix,
                side=self.side(px),
                vocab=self.vocab,
            )
            for px in self.scales
        }
        language = self.language_sizes
        kept = language.kv_numbers() * (self.prompt_tokens + self.prefix) * LANGUAGE_ROWS
        return FamilyMemory(
            scales=sizes,
            tokenizer_parameters=PARAMETERS.get(self.vq, 0),
            tokenizer_channels=self.vq.channels,
            conditioners={"language model": language.parameters(self.vocabulary)},
            conditioner_numbers={"language model": kept},
        )


_SCALES = {px: f"ar_dtok_lp_{px}px.pth" for px in (256, 512, 1024)}
CONFIGS = {
    "tar-1.5b": TarConfig(
        language="Tar-1.5B",
        language_hub="csuhan/Tar-1.5B",
        language_sizes=LanguageSizes(hidden=1536, layers=28, heads=12, kv_heads=2, ffn=8960, tied=True),
        scales=_SCALES,
    ),
    "tar-7b": TarConfig(
        language="Tar-7B-v0.1",
        language_hub="csuhan/Tar-7B-v0.1",
        language_sizes=LanguageSizes(hidden=3584, layers=28, heads=28, kv_heads=4, ffn=18944, tied=False),
        scales=_SCALES,
    ),
}


def _parts(value: Any, published: Any) -> Any:
    return dataclasses.replace(published, **value)


READERS: dict[str, Reader] = {
    "scales": lambda value, published: {int(px): str(file) for px, file in value.items()},
    "semantic_sides": lambda value, published: tuple(value),
    "vq": read_vq,
    "semantic_sizes": _parts,
    "language_sizes": _parts,
}
"""How `family.json` states what is more than a number or a word."""

"""Tar as a `models.family.Family`. Knows no decoding method.

Shape letters: B images, N semantic codes, H W cells, V codes, D code size.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition
from mulo_ray.errors import CheckpointError, PromptError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.dtypes import network_dtype
from mulo_ray.models.family import Payload
from mulo_ray.models.janus_vq import VQCodec, janus_vq
from mulo_ray.models.official_family import OfficialFamily
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.tar.config import TarConfig
from mulo_ray.models.tar.language import LanguageConditioner
from mulo_ray.models.tar.network import meta_network, raster_scale
from mulo_ray.models.tar.semantic import SemanticDecoder, semantic_decoder

_LANGUAGE_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")


class TarFamily(OfficialFamily):
    """One tokenizer and one TA-Tok for bodies at several image sides; a language model writes their conditions."""

    def __init__(self, card: FamilyCard, device: str) -> None:
        super().__init__(card, device, to_bytes)
        assert isinstance(card.config, TarConfig), "the card of a Tar family holds its configuration"
        self._config = card.config

    @functools.cached_property
    def vq(self) -> VQCodec:
        """The tokenizer, in float32 on every device."""
        return janus_vq(self._config.vq, self._file(self._config.tokenizer), self._device)

    @functools.cached_property
    def semantic(self) -> SemanticDecoder:
        """TA-Tok's decoding half, in the networks' precision."""
        config, dtype = self._config, network_dtype(self._device)
        return semantic_decoder(config.semantic_sizes, self._file(config.semantic), self._device, dtype)

    def scale(self, px: int, *, batch_invariant: bool, side: int | None = None) -> RasterScale:
        """See `models.family.Family.scale`. Raises CheckpointError for a grid of other positions."""
        config = self._config
        self._check_scale(px)
        if side not in (None, config.side(px)):
            raise CheckpointError(
                f"the {px} px scale of {self._card.name} has learned positions for {config.side(px)} x "
                f"{config.side(px)} cells and cannot draft on {side} x {side}: use --decoder mulo"
            )
        network = meta_network(config, config.side(px))
        self._load(network, px, config.scales[px], batch_invariant=batch_invariant)
        return raster_scale(network, batch_invariant=batch_invariant)

    def prompt_used(self, text: str) -> str:
        """The text between the marks of the prompt; nothing of it is cleaned."""
        if not text.strip():
            raise PromptError("the caption is empty: describe the picture in words")
        return text.strip()

    def conditioner(self, device: str) -> LanguageConditioner:
        """The language model, on a device of its own."""
        folder = self._text_folder(self._config.language, self._config.language_hub, _LANGUAGE_FILES)
        return LanguageConditioner(self._config, folder, device)

    def condition_from(self, payloads: Sequence[Payload]) -> Condition:
        """Semantic codes -> {"features_BPC"}. Raises PromptError for what is no whole grid (docs/reports.md A8)."""
        rows = []
        for payload in payloads:
            codes = torch.from_numpy(payload["codes"].astype("int64"))
            check_codes(codes, self._config.prefix, self._config.semantic_sizes.codes)
            rows.append(codes)
        return {"features_BPC": self.semantic(torch.stack(rows).to(self._device))}

    @functools.cached_property
    def _own_conditioner(self) -> LanguageConditioner:
        return self.conditioner(str(self._device))

    def condition(self, texts_used: Sequence[str]) -> Condition:
        """Through a language model of this process, with seeds of zero."""
        return self.condition_from(self._own_conditioner.encode(texts_used, [0] * len(texts_used)))


def check_codes(codes_N: Tensor, count: int, codes: int) -> None:
    """Refuse semantic codes that are no whole grid: never padded, never cut. Raises PromptError with the numbers."""
    if len(codes_N) != count:
        raise PromptError(f"expected {count} semantic codes, got {len(codes_N)}: the writing ended early or late")
    low, high = int(codes_N.min()), int(codes_N.max())
    if low < 0 or high >= codes:
        raise PromptError(f"expected semantic codes from 0 to {codes - 1}, got {low if low < 0 else high}")


def to_bytes(signed: Tensor) -> Tensor:
    """Pixels about [-1, 1] -> uint8 by floor(255 clamp(0.5 x + 0.5, 0, 1)): -1 is 0, 0 is 127, 1 is 255."""
    return ((signed.float() * 0.5 + 0.5).clamp(0, 1) * 255).to(torch.uint8)

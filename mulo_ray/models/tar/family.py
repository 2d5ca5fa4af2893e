"""Tar as a `models.family.Family`. Knows no decoding method.

Shape letters: B images, N semantic codes, H W cells, V codes, D code size.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition, Resampler
from mulo_ray.errors import CheckpointError, PromptError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.checkpoint import fill, fill_random
from mulo_ray.models.containers import load_state
from mulo_ray.models.dtypes import network_dtype
from mulo_ray.models.family import Payload
from mulo_ray.models.janus_vq import VQCodec, janus_vq
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.rescaler import NearestResampler, PixelResampler
from mulo_ray.models.sources import local_folder
from mulo_ray.models.tar.card import find_file
from mulo_ray.models.tar.config import TarConfig
from mulo_ray.models.tar.language import LanguageConditioner
from mulo_ray.models.tar.network import meta_network, raster_scale
from mulo_ray.models.tar.semantic import SemanticDecoder, semantic_decoder
from mulo_ray.models.transformer import column_major

_LANGUAGE_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")


class TarFamily:
    """Everything is loaded on first use: a process that only writes semantic codes holds no image model."""

    def __init__(self, card: FamilyCard, device: str) -> None:
        self._card, self._device = card, torch.device(device)
        config = card.config
        assert isinstance(config, TarConfig), "the card of a Tar family holds its configuration"
        self._config = config

    @functools.cached_property
    def vq(self) -> VQCodec:
        """The tokenizer, in float32 on every device."""
        return janus_vq(self._config.vq, self._file(self._config.tokenizer), self._device)

    @functools.cached_property
    def semantic(self) -> SemanticDecoder:
        """TA-Tok's decoding half, in the networks' precision."""
        config, dtype = self._config, network_dtype(self._device)
        return semantic_decoder(config.semantic_sizes, self._file(config.semantic), self._device, dtype)

    @property
    def codebook_VD(self) -> Tensor:
        """Unit vectors of the codes."""
        return self.vq.codebook

    def scale(self, px: int, *, batch_invariant: bool, side: int | None = None) -> RasterScale:
        """See `models.family.Family.scale`. Raises CheckpointError for a grid of other positions."""
        config = self._config
        if px not in config.scales:
            raise CheckpointError(
                f"{self._card.name} has no scale of {px} px; it has {', '.join(map(str, sorted(config.scales)))}"
            )
        if side not in (None, config.side(px)):
            raise CheckpointError(
                f"the {px} px scale of {self._card.name} has learned positions for {config.side(px)} x "
                f"{config.side(px)} cells and cannot draft on {side} x {side}: use --decoder mulo"
            )
        network = meta_network(config, config.side(px))
        path, dtype = self._file(config.scales[px]), network_dtype(self._device)
        if path is None:
            fill_random(network, f"{self._card.name}/{px}", dtype)
        else:
            fill(network, load_state(path), path.name, dtype)
        network.to(self._device)
        if not batch_invariant:
            column_major(network)
        return raster_scale(network, batch_invariant=batch_invariant)

    def prompt_used(self, text: str) -> str:
        """The text between the marks of the prompt; nothing of it is cleaned."""
        if not text.strip():
            raise PromptError("the caption is empty: describe the picture in words")
        return text.strip()

    def conditioner(self, device: str) -> LanguageConditioner:
        """The language model, on a device of its own."""
        return LanguageConditioner(self._config, self._language_folder(), device)

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

    def resampler(self, name: str, ratio: int) -> Resampler:
        """`pixel` or `nearest`."""
        return NearestResampler(ratio) if name == "nearest" else PixelResampler(self.vq, ratio)

    @torch.inference_mode()
    def pixels(self, tokens_BHW: Tensor) -> Tensor:
        """One image at a time, rounded down as the official code does."""
        images = [to_bytes(self.vq.decode_signed(one.to(self._device))) for one in tokens_BHW.split(1)]
        return torch.cat(images).permute(0, 2, 3, 1).cpu()

    def _file(self, name: str) -> Path | None:
        """A file of the weights folder; None with random weights."""
        if self._card.random:
            return None
        path = find_file(self._card.folder, name)
        if path is None:
            raise CheckpointError(f"{self._card.folder} holds no {name} (nor its .safetensors); docs/models.md")
        return path

    def _language_folder(self) -> Path | None:
        if self._card.random:
            return None
        folder = self._card.folder / self._config.language
        return folder if folder.is_dir() else local_folder(self._config.language_hub, _LANGUAGE_FILES)


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

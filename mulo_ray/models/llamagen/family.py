"""LlamaGen as a `models.family.Family`. Knows no decoding method.

Shape letters: B images, H W cells, V codes, D code size.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition
from mulo_ray.errors import PromptError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.janus_vq import VQCodec, janus_vq
from mulo_ray.models.llamagen import captions, t5
from mulo_ray.models.llamagen.config import LlamaGenConfig
from mulo_ray.models.llamagen.network import IGNORABLE, LlamaGenNetwork, meta_network
from mulo_ray.models.official_family import OfficialFamily
from mulo_ray.models.raster import RasterScale

_T5_FILES = ("*.json", "*.safetensors", "*.model")


class LlamaGenFamily(OfficialFamily):
    """One tokenizer, bodies of one size at several image sides, classes or captions as conditions."""

    ignorable = IGNORABLE

    def __init__(self, card: FamilyCard, device: str) -> None:
        super().__init__(card, device, to_bytes)
        assert isinstance(card.config, LlamaGenConfig), "the card of a LlamaGen family holds its configuration"
        self._config = card.config
        self._t5: t5.T5Conditioner | None = None

    @functools.cached_property
    def vq(self) -> VQCodec:
        """The tokenizer, in float32 on every device as in the official samplers."""
        name = self._config.scales[max(self._config.scales)].tokenizer
        return janus_vq(self._config.vq, self._file(name), self._device)

    def scale(self, px: int, *, batch_invariant: bool, side: int | None = None) -> RasterScale:
        """See `models.family.Family.scale`."""
        self._check_scale(px)
        network = meta_network(self._config, side or self._config.side(px))
        self._load(network, px, self._config.scales[px].weights, batch_invariant=batch_invariant)
        return raster_scale(network, batch_invariant=batch_invariant)

    def prompt_used(self, text: str) -> str:
        """A caption after the official cleaning, or the number of a class; PromptError when there is none."""
        return captions.prompt_used(text) if self._config.kind == "t2i" else _class_number(text, self._config.classes)

    def conditioner(self, device: str) -> t5.T5Conditioner | None:
        """The T5 encoder; None for a class-conditional family."""
        if self._config.kind == "c2i":
            return None
        config = self._config
        folder = self._text_folder(config.text, config.text_hub, _T5_FILES)
        return t5.T5Conditioner(folder, tokens=config.caption_tokens, caption_dim=config.caption_dim, device=device)

    def condition_from(self, payloads: Sequence[t5.Payload]) -> Condition:
        """What the conditioner made, as a condition of the scales."""
        return t5.condition_from(payloads, tokens=self._config.caption_tokens)

    def condition(self, texts_used: Sequence[str]) -> Condition:
        """Class numbers as a tensor; captions through a T5 of this process, where no stage before it has one."""
        if self._config.kind == "c2i":
            return {"labels_B": torch.tensor([int(text) for text in texts_used])}
        self._t5 = self._t5 or self.conditioner(str(self._device))
        assert self._t5 is not None, "a text-conditional family has a conditioner"
        return self.condition_from(self._t5.encode(texts_used, [0] * len(texts_used)))


def raster_scale(network: LlamaGenNetwork, *, batch_invariant: bool) -> RasterScale:
    """A network as a scale; its conditions are {"labels_B"} or {"features_BPC", "visible_BP"}."""
    device, dtype = network.norm.weight.device, network.norm.weight.dtype
    if network.kind == "c2i":
        return RasterScale(
            network,
            lambda condition: network.prefix(condition["labels_B"]),
            network.unconditional,
            batch_invariant=batch_invariant,
            codes=network.codes,
        )
    return RasterScale(
        network,
        lambda condition: network.prefix(condition["features_BPC"].to(device, dtype)),
        network.unconditional,
        batch_invariant=batch_invariant,
        visible=lambda condition: condition["visible_BP"].to(device),
        codes=network.codes,
    )


def to_bytes(signed: Tensor) -> Tensor:
    """Pixels about [-1, 1] -> uint8 by clamp(127.5 x + 128), truncated: -1 is 0, 0 is 128, 1 is 255."""
    return (signed.float() * 127.5 + 128.0).clamp(0, 255).to(torch.uint8)


def _class_number(text: str, classes: int) -> str:
    found = text.strip()
    if not (found.isascii() and found.isdigit() and int(found) < classes):
        raise PromptError(
            f"a class-conditional family takes the number of an ImageNet class, 0 to {classes - 1}, as its caption, "
            f"got {text[:40]!r}"
        )
    return str(int(found))

"""The embedded family as a `models.family.Family`. Knows no decoding method."""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition, FeatureScale, Resampler
from mulo_ray.errors import CheckpointError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.eagle import EagleDraftHead, load_head
from mulo_ray.models.emoji.network import EmojiNetwork, emoji_config
from mulo_ray.models.emoji.rescaler import load_rescaler
from mulo_ray.models.emoji.sizes import scale_sizes
from mulo_ray.models.emoji.tokenizer import load_vq
from mulo_ray.models.family import Payload
from mulo_ray.models.latent_rescaler import LatentResampler
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.rescaler import NearestResampler, PixelResampler
from mulo_ray.models.text import condition_ids, prompt_used
from mulo_ray.models.transformer import column_major


class EmojiFamily:
    """Tokenizer at once, scales when asked for."""

    def __init__(self, card: FamilyCard, device: str) -> None:
        self._card, self._device = card, torch.device(device)
        self.vq = load_vq(card.folder)
        self.vq.to(self._device)
        self.codebook_VD = self.vq.codebook
        self._known = frozenset((card.folder / "words.txt").read_text(encoding="utf-8").split())

    def scale(self, px: int, *, batch_invariant: bool, side: int | None = None) -> RasterScale:
        """See `models.family.Family.scale`."""
        if px not in self._card.scales:
            raise CheckpointError(f"the emoji family has no scale of {px} px; it has {sorted(self._card.scales)}")
        sizes = scale_sizes(self._card.folder, px)
        config = emoji_config(px, self.vq.config.codebook_size, sizes.layers)
        config = config if side is None else dataclasses.replace(config, side=side)
        network = EmojiNetwork(config, sizes.text_dim)
        name = f"scale-{px}.safetensors"
        fill(network, load_tensors(self._card.folder / name), name)
        network.to(self._device)
        if not batch_invariant:
            column_major(network.body)

        def prefix(condition: Condition) -> Tensor:
            vectors: Tensor = network.text(condition["ids_BPG"].to(self._device))
            return vectors

        return RasterScale(network.body, prefix, network.unconditional, batch_invariant=batch_invariant)

    def head(self, px: int, scale: FeatureScale, *, batch_invariant: bool) -> EagleDraftHead:
        """See `models.family.Family.head`."""
        assert isinstance(scale, RasterScale), "a head runs on a body"
        return load_head(self._card.folder / self._card.heads[px], scale, batch_invariant=batch_invariant)

    def prompt_used(self, text: str) -> str:
        """See `models.text.prompt_used`."""
        return prompt_used(text, self._known)

    def conditioner(self, device: str) -> None:
        """Words are hashed where they are used: no text network."""

    def condition_from(self, payloads: Sequence[Payload]) -> Condition:
        """Never asked for."""
        raise AssertionError("the embedded family has no conditioner")

    def condition(self, texts_used: Sequence[str]) -> Condition:
        """Hashed word ids (B, P, 1 + G)."""
        return {"ids_BPG": condition_ids(texts_used)}

    def resampler(self, name: str, ratio: int) -> Resampler:
        """`pixel`, `nearest`, or `latent` where the card lists the ratio."""
        if name == "nearest":
            return NearestResampler(ratio)
        if name == "latent":
            return LatentResampler(load_rescaler(self._card.folder, ratio).to(self._device), self.codebook_VD)
        return PixelResampler(self.vq, ratio)

    @torch.inference_mode()
    def pixels(self, tokens_BHW: Tensor) -> Tensor:
        """One image at a time, rounded to nearest."""
        images = [self.vq.decode(one.to(self._device)) for one in tokens_BHW.split(1)]
        return (torch.cat(images) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu()

"""What LlamaGen and Tar share as families: files by their published names, scales loaded into empty shapes, VQ pixels.

Knows no decoding method. Shape letters: B images, H W cells, V codes, D code size.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from mulo_ray.decoding.interfaces import Resampler
from mulo_ray.errors import CheckpointError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.checkpoint import fill, fill_random
from mulo_ray.models.containers import load_state
from mulo_ray.models.dtypes import network_dtype
from mulo_ray.models.janus_vq import VQCodec
from mulo_ray.models.official_card import find_file
from mulo_ray.models.rescaler import NearestResampler, PixelResampler
from mulo_ray.models.sources import local_folder
from mulo_ray.models.transformer import column_major


class OfficialFamily(abc.ABC):
    """Everything is loaded on first use: a process that only encodes captions holds no image model."""

    ignorable: ClassVar[Sequence[str]] = ()
    """Keys of a scale's file that are no weights."""

    def __init__(self, card: FamilyCard, device: str, to_bytes: Callable[[Tensor], Tensor]) -> None:
        self._card, self._device = card, torch.device(device)
        self._to_bytes = to_bytes

    @functools.cached_property
    @abc.abstractmethod
    def vq(self) -> VQCodec:
        """The tokenizer, in float32 on every device as in the official samplers."""

    @property
    def codebook_VD(self) -> Tensor:
        """Unit vectors of the codes."""
        return self.vq.codebook

    def resampler(self, name: str, ratio: int) -> Resampler:
        """`pixel` or `nearest`."""
        return NearestResampler(ratio) if name == "nearest" else PixelResampler(self.vq, ratio)

    @torch.inference_mode()
    def pixels(self, tokens_BHW: Tensor) -> Tensor:
        """One image at a time, rounded as the official sampler of the family does."""
        images = [self._to_bytes(self.vq.decode_signed(one.to(self._device))) for one in tokens_BHW.split(1)]
        return torch.cat(images).permute(0, 2, 3, 1).cpu()

    def _check_scale(self, px: int) -> None:
        scales = self._card.config.scale_files()
        if px not in scales:
            there = ", ".join(map(str, sorted(scales)))
            raise CheckpointError(f"{self._card.name} has no scale of {px} px; it has {there}")

    def _load(self, network: nn.Module, px: int, name: str, *, batch_invariant: bool) -> None:
        """Fill an empty `network` from the file `name`, or at random, on this family's device and in its precision."""
        path, dtype = self._file(name), network_dtype(self._device)
        if path is None:
            fill_random(network, f"{self._card.name}/{px}", dtype)
        else:
            fill(network, load_state(path), path.name, dtype, ignorable=self.ignorable)
        network.to(self._device)
        if not batch_invariant:
            column_major(network)

    def _file(self, name: str) -> Path | None:
        """A file of the weights folder; None with random weights."""
        if self._card.random:
            return None
        path = find_file(self._card.folder, name)
        if path is None:
            raise CheckpointError(f"{self._card.folder} holds no {name} (nor its .safetensors); docs/models.md")
        return path

    def _text_folder(self, name: str, hub: str, patterns: Sequence[str]) -> Path | None:
        """The folder of the text network: beside the weights, else from the hub; None with random weights."""
        if self._card.random:
            return None
        folder = self._card.folder / name
        return folder if folder.is_dir() else local_folder(hub, patterns)

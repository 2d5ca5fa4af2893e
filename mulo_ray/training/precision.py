"""Where training multiplies in bfloat16 under float32 weights. Knows no network."""

import functools

import torch


@functools.cache
def mixed_precision(device: torch.device) -> bool:
    """On a GPU, and on a CPU with matrix units for bfloat16 (AMX); else float32."""
    if device.type == "cpu":
        return bool(torch.cpu.get_capabilities().get("amx_bf16", False))
    return device.type == "cuda"


def forward_precision(device: torch.device) -> torch.autocast:
    """The context of a forward with loss on `device`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=mixed_precision(device))

"""The one place that says in which precision a network of the big families runs on a device. Knows no network."""

import torch


def network_dtype(device: str | torch.device) -> torch.dtype:
    """float32 on a CPU; on a GPU bfloat16, the precision of the official samplers, and float32 where it lacks that.

    Files of any precision are cast to this (docs/reports.md B2).
    """
    if torch.device(device).type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32

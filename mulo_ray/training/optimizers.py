"""Which optimizer moves which parameter: Muon for matrices and kernels of the trunk, AdamW for everything else."""

from collections.abc import Iterable

import torch
from torch import nn

from mulo_ray.training.muon import Muon


def split_optimizers(
    network: nn.Module, trunk: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0
) -> list[torch.optim.Optimizer]:
    """Muon over the parameters of `trunk` with two or more dimensions, AdamW over the rest of `network`."""
    matrices = [parameter for parameter in trunk if parameter.ndim >= 2]
    chosen = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in network.parameters() if id(parameter) not in chosen]
    return [
        Muon([{"params": matrices, "initial_lr": lr}], lr=lr),
        torch.optim.AdamW([{"params": others, "initial_lr": lr}], lr=lr, betas=(0.9, 0.97), weight_decay=weight_decay),
    ]

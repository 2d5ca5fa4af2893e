"""Muon: momentum, then the nearest orthogonal matrix by Newton-Schulz, all equal shapes in one batch.

torch.optim.Muon iterates in bfloat16, which CPUs without matrix units emulate, at ten times the cost of a step: there
this one iterates in float32.
Source of the iteration: Keller Jordan et al., "Muon" (2024), coefficients 3.4445, -4.7750, 2.0315.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from mulo_ray.training.precision import mixed_precision

_A, _B, _C = 3.4445, -4.7750, 2.0315


class Muon(torch.optim.Optimizer):
    """For weight matrices; three stacked square ones (fused qkv) count as three, a kernel as (out, in * area)."""

    def __init__(
        self, parameters: Iterable[dict[str, Any]], lr: float, momentum: float = 0.95, weight_decay: float = 0.02
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update from the gradients; scaled to the RMS of an AdamW step (0.2 sqrt(max(rows, columns)))."""
        assert closure is None, "Muon takes no closure"
        for group in self.param_groups:
            by_shape: dict[tuple[int, int], list[tuple[nn.Parameter, Tensor]]] = {}
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].mul_(group["momentum"]).add_(parameter.grad)
                update = parameter.grad.add(state["momentum"], alpha=group["momentum"])
                for piece, part in zip(_square_pieces(parameter), _square_pieces(update), strict=True):
                    by_shape.setdefault((part.shape[0], part.shape[1]), []).append((piece, part))
            for shape, pairs in by_shape.items():
                updates = orthogonalise(torch.stack([part for _, part in pairs]))
                step = 0.2 * max(shape) ** 0.5 * group["lr"]
                for (piece, _), update in zip(pairs, updates, strict=True):
                    piece.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=step)


def orthogonalise(matrices: Tensor, iterations: int = 5) -> Tensor:
    """(K, m, n) -> matrices with all singular values near 1, the nearest orthogonal ones in direction."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    if mixed_precision(x.device):
        x = x.bfloat16()
    for _ in range(iterations):
        square = x @ x.mT
        x = _A * x + (_B * square + _C * (square @ square)) @ x
    result: Tensor = x.mT if tall else x
    return result.type_as(matrices)


def _square_pieces(matrix: Any) -> list[Any]:
    matrix = matrix.flatten(1)
    rows, columns = matrix.shape
    return list(matrix.split(columns)) if rows == 3 * columns else [matrix]

"""How the judge is made: a linear head by cross-entropy on features of real pictures and of views of them.

Knows features and concept names only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.emoji.frechet import moments, principal_axes
from mulo_ray.evaluation.emoji.judge import Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Settings of the head; the defaults are those of the packaged judge."""

    axes: int = 256
    steps: int = 400
    batch: int = 512
    lr: float = 0.01
    weight_decay: float = 0.02
    smoothing: float = 0.1
    seed: int = 0


def fit_judge(features: np.ndarray, concepts: Sequence[str], options: FitOptions | None = None) -> Judge:
    """A judge from features (m, d) and the concept of each row; rows are real pictures and views of them.

    Raises UsageError for fewer than two concepts.
    """
    options = options or FitOptions()
    names = sorted(set(concepts))
    if len(names) < 2:
        raise UsageError(f"a judge needs pictures of two concepts or more, got {len(names)}")
    mean, scale = features.mean(0), features.std(0) + 0.02  # the floor keeps features that never move out of it
    standard = (features - mean) / scale
    basis = principal_axes(moments(standard), min(options.axes, features.shape[1])).astype(np.float32)
    place = {name: index for index, name in enumerate(names)}
    weight, bias = _fit_head(
        torch.from_numpy((standard @ basis).astype(np.float32)),
        torch.tensor([place[name] for name in concepts]),
        len(names),
        options,
    )
    return Judge(mean=mean, scale=scale, basis=basis, weight=weight, bias=bias, names=names)


def _fit_head(x: Tensor, labels: Tensor, classes: int, options: FitOptions) -> tuple[np.ndarray, np.ndarray]:
    generator = torch.Generator().manual_seed(options.seed)
    spread = x.std().clamp(min=1e-6)
    weight = torch.zeros(x.shape[1], classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.AdamW([weight, bias], lr=options.lr, weight_decay=options.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=options.lr, total_steps=options.steps)
    for _ in range(options.steps):
        chosen = torch.randint(len(x), (min(options.batch, len(x)),), generator=generator)
        loss = F.cross_entropy(x[chosen] / spread @ weight + bias, labels[chosen], label_smoothing=options.smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return (weight / spread).detach().numpy(), bias.detach().numpy()

"""What a stage of training is to the loop that drives it: networks, a loss, and what to keep and show.

Knows no checkpoint file, no process and no Ray.
"""

import copy
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Which part of every batch this worker computes. Batches are the same whatever the number of workers."""

    rank: int = 0
    world: int = 1

    def of(self, batch: Tensor) -> Tensor:
        """The rows of a whole batch that are this worker's."""
        return batch[self.rank :: self.world]


@dataclass(slots=True, kw_only=True)
class Measured:
    """What one step is worth logging. `pictures` is the whole batch's count over all workers."""

    loss: Tensor
    pictures: int
    values: dict[str, float] = field(default_factory=dict)


class Stage(Protocol):
    """One network in training. `average` is what gets measured and published."""

    @property
    def name(self) -> str: ...

    @property
    def network(self) -> nn.Module: ...

    @property
    def average(self) -> "Average[Any]": ...

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]: ...

    def to(self, device: str) -> None:
        """Move networks and whatever the loss needs; before the optimizers have state."""

    def loss(self, step: int, share: Share) -> Measured:
        """The loss of this worker's share of batch number `step`, a pure function of the step and the weights."""

    def after_step(self, step: int) -> None:
        """Whatever follows the optimizers' step."""

    def extra(self) -> dict[str, Any]:
        """State of its own to keep in a checkpoint (tensors and numbers)."""

    def restore(self, extra: dict[str, Any]) -> None:
        """Take back what `extra` returned."""

    def evaluate(self) -> dict[str, float]:
        """Figures on held-out data, under the averaged weights."""

    def sheet(self) -> np.ndarray | None:
        """A picture (h, w, 3) uint8 that shows what has been learnt, or None."""


class Average(Generic[Network]):
    """Exponential moving average of a network's parameters: smooth weights at any moment of a run."""

    def __init__(self, network: Network, decay: float = 0.998) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False).eval()
        self._decay = decay
        self.steps = 0

    @torch.no_grad()
    def update(self, network: Network) -> None:
        """Move towards `network`; early on faster, so that the start is forgotten."""
        self.steps += 1
        decay = min(self._decay, (1 + self.steps) / (10 + self.steps))
        for mine, theirs in zip(self.network.parameters(), network.parameters(), strict=True):
            mine.lerp_(theirs, 1 - decay)

    def load(self, state: dict[str, Tensor], steps: int) -> None:
        """Take over saved weights and how many steps they average."""
        self.network.load_state_dict(state)
        self.steps = steps

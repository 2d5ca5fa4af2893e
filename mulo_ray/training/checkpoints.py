"""Resumable training state: one torch file per stage, replaced atomically every few minutes. Knows no model."""

import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mulo_ray.training.folders import Folder
from mulo_ray.training.plots import plot_metrics
from mulo_ray.training.stages import Stage


class Checkpoint:
    """`<name>.pt` in a folder (path or URI) with everything a run needs to go on; metrics, plot and samples beside it.

    `published` (weights and step) is where a run without a checkpoint goes on.
    """

    def __init__(
        self,
        folder: Path | str,
        name: str,
        *,
        every_s: float = 180.0,
        published: tuple[dict[str, Tensor], int] | None = None,
    ) -> None:
        self._folder, self._name = Folder(folder), name
        self._every_s = every_s
        self._published = published
        self._saved_at = time.monotonic()

    def load(self, stage: Stage) -> int:
        """Fill the stage from the checkpoint, else from published weights; the step it stands at, 0 when fresh."""
        state = load_state(self._folder, self._name)
        if state is not None:
            stage.network.load_state_dict(state["model"])
            stage.average.load(state["average"], state["averaged"])
            for optimizer, saved in zip(stage.optimizers, state["optimizers"], strict=True):
                asked = [group["initial_lr"] for group in optimizer.param_groups]
                optimizer.load_state_dict(saved)
                for group, lr in zip(optimizer.param_groups, asked, strict=True):
                    group["initial_lr"] = lr  # the rate asked for now, not the one of then
            stage.restore(state["extra"])
            return int(state["step"])
        if self._published is not None:
            weights, step = self._published
            stage.network.load_state_dict(weights)
            stage.average.load(weights, step)
            return step
        return 0

    def save_if_due(self, stage: Stage, step: int) -> bool:
        """Save when the interval has passed; whether it did."""
        if time.monotonic() - self._saved_at < self._every_s:
            return False
        self.save(stage, step)
        return True

    def save(self, stage: Stage, step: int) -> None:
        """Replace the checkpoint in one step, so that a kill leaves the old one or the new one."""
        buffer = io.BytesIO()
        torch.save(
            {
                "step": step,
                "model": stage.network.state_dict(),
                "average": stage.average.network.state_dict(),
                "averaged": stage.average.steps,
                "optimizers": [optimizer.state_dict() for optimizer in stage.optimizers],
                "extra": stage.extra(),
            },
            buffer,
        )
        self._folder.write(f"{self._name}.pt", buffer.getvalue())
        self._saved_at = time.monotonic()

    def log(self, **values: float) -> None:
        """Append one line of metrics and print it."""
        line = json.dumps({name: round(value, 5) for name, value in values.items()})
        self._folder.append(f"{self._name}.metrics.jsonl", line)
        print(f"{self._name} {line}", flush=True)

    def show(self, sheet: np.ndarray) -> None:
        """Replace `<name>.sheet.png`."""
        buffer = io.BytesIO()
        Image.fromarray(sheet).save(buffer, "PNG")
        self._folder.write(f"{self._name}.sheet.png", buffer.getvalue())

    def plot(self) -> None:
        """Replace `<name>.metrics.png`, the curves of everything logged so far."""
        lines = (self._folder.read(f"{self._name}.metrics.jsonl") or b"").decode().splitlines()
        self._folder.write(f"{self._name}.metrics.png", plot_metrics(self._name, [json.loads(line) for line in lines]))


def load_state(folder: Folder, name: str) -> dict[str, Any] | None:
    """The saved state of a stage on the CPU, tensors and numbers only; None where none was saved."""
    content = folder.read(f"{name}.pt")
    if content is None:
        return None
    state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state

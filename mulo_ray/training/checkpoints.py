"""Resumable training state: one torch file per stage, replaced atomically every few minutes. Knows no model."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mulo_ray.training.stages import Stage


class Checkpoint:
    """`<folder>/<stage>.pt` with everything a run needs to go on; metrics and a sheet of samples beside it.

    `published` (weights and step) is where a run without a checkpoint goes on.
    """

    def __init__(
        self, folder: Path, name: str, *, every_s: float = 180.0, published: tuple[dict[str, Tensor], int] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.pt"
        self.metrics = folder / f"{name}.metrics.jsonl"
        self._every_s = every_s
        self._published = published
        self._saved_at = time.monotonic()

    def load(self, stage: Stage) -> int:
        """Fill the stage from the checkpoint, else from published weights; the step it stands at, 0 when fresh."""
        if self.path.exists():
            state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
            stage.network.load_state_dict(state["model"])
            stage.average.load(state["average"], state["averaged"])
            for optimizer, saved in zip(stage.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
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
        """Replace the checkpoint in one rename, so that a kill leaves the old one or the new one."""
        part = self.path.with_suffix(".part")
        torch.save(
            {
                "step": step,
                "model": stage.network.state_dict(),
                "average": stage.average.network.state_dict(),
                "averaged": stage.average.steps,
                "optimizers": [optimizer.state_dict() for optimizer in stage.optimizers],
                "extra": stage.extra(),
            },
            part,
        )
        os.replace(part, self.path)
        self._saved_at = time.monotonic()

    def log(self, **values: float) -> None:
        """Append one line of metrics and print it."""
        line = json.dumps({name: round(value, 5) for name, value in values.items()})
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, flush=True)

    def show(self, sheet: np.ndarray) -> None:
        """Replace `<stage>.sheet.png`."""
        Image.fromarray(sheet).save(self.path.with_suffix(".sheet.png"))

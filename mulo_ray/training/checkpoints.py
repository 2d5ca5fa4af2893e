"""Resumable training state: one torch file per stage, replaced atomically every few minutes. Knows no model."""

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Checkpoint:
    """`<folder>/<stage>.pt` with everything a run needs to go on, and `<stage>.metrics.jsonl` beside it."""

    def __init__(self, folder: Path, stage: str, *, every_s: float = 180.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{stage}.pt"
        self.metrics = folder / f"{stage}.metrics.jsonl"
        self._every_s = every_s
        self._saved_at = time.monotonic()

    def load(self, model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, Any] | None:
        """Fill model and optimizers; the extra state saved with them, or None when there is no checkpoint."""
        if not self.path.exists():
            return None
        state = torch.load(self.path, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        extra: dict[str, Any] = state["extra"]
        return extra

    def save_if_due(self, model: nn.Module, optimizers: list[torch.optim.Optimizer], extra: dict[str, Any]) -> bool:
        """Save when the interval has passed; whether it did."""
        if time.monotonic() - self._saved_at < self._every_s:
            return False
        self.save(model, optimizers, extra)
        return True

    def save(self, model: nn.Module, optimizers: list[torch.optim.Optimizer], extra: dict[str, Any]) -> None:
        """Replace the checkpoint in one rename, so that a kill leaves the old one or the new one."""
        part = self.path.with_suffix(".part")
        torch.save(
            {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "extra": extra},
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

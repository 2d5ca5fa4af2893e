"""The published VQ tokenizer of a family folder, built as its card says. Knows no scale."""

import json
from pathlib import Path
from typing import Any

from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.vq import VQ, VQConfig


def load_vq(folder: Path) -> VQ:
    """`tokenizer.safetensors` of a folder with a family.json; CheckpointError when it is missing or does not fit."""
    card = json.loads((folder / "family.json").read_text(encoding="utf-8"))
    return build_vq(card["tokenizer"], folder)


def build_vq(entry: dict[str, Any], folder: Path) -> VQ:
    """The tokenizer that a card's line describes, from its file in `folder`."""
    vq = VQ(VQConfig(**entry.get("config", {})))
    fill(vq, load_tensors(folder / entry["file"]), entry["file"])
    return vq

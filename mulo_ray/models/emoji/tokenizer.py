"""The published VQ tokenizer of a family folder, built as its card says. Knows no scale."""

import json
from pathlib import Path

from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.vq import VQ, VQConfig


def load_vq(folder: Path) -> VQ:
    """`tokenizer.safetensors` of a folder with a family.json; CheckpointError when it is missing or does not fit."""
    card = json.loads((folder / "family.json").read_text(encoding="utf-8"))
    vq = VQ(VQConfig(**card["tokenizer"].get("config", {})))
    fill(vq, load_tensors(folder / "tokenizer.safetensors"), "tokenizer.safetensors")
    return vq

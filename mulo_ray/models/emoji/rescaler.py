"""The published learned samplers of a family folder, built as its card says. Knows no scale."""

import json
from pathlib import Path

from mulo_ray.errors import CheckpointError
from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.latent_rescaler import LatentRescaler, LatentRescalerConfig


def load_rescaler(folder: Path, ratio: int) -> LatentRescaler:
    """The samplers of one ratio; CheckpointError when the card lists none or the file does not fit."""
    card = json.loads((folder / "family.json").read_text(encoding="utf-8"))
    entry = card.get("rescalers", {}).get(str(ratio))
    if entry is None:
        raise CheckpointError(
            f"the family card in {folder} lists no learned samplers of ratio {ratio}; use --upsampler pixel"
        )
    network = LatentRescaler(LatentRescalerConfig(**entry["config"]))
    fill(network, load_tensors(folder / entry["file"]), entry["file"])
    return network

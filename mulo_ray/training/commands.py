"""The stages of training as commands: what `jobs/train.py STAGE` runs. One process, one torch thread by default."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mulo_ray.errors import UsageError
from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.emoji.network import EmojiNetwork, emoji_config
from mulo_ray.models.vq import VQ
from mulo_ray.training import emoji_sources, pictures
from mulo_ray.training.publish import publish as write_family
from mulo_ray.training.scales import train_scale
from mulo_ray.training.tokenizer import train_tokenizer

PACKAGE_WEIGHTS = Path(__file__).parents[1] / "models" / "emoji" / "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Options every stage shares."""

    folder: Path = Path("train")
    """Where pictures, checkpoints and metrics live."""
    threads: int = 1
    """Torch threads; on shared cores one is fastest."""
    seed: int = 0


def data(options: TrainOptions, icons: Path | None = None) -> None:
    """Fetch the emoji packages (npm) and draw every picture at 32, 64 and 128 px."""
    source = icons or options.folder / "icons"
    emoji_sources.fetch(source)
    found = emoji_sources.read_icons(source)
    pictures.rasterise(found, options.folder / "data")
    print(json.dumps({"pictures": len(found), "folder": str(options.folder / "data")}))


def tokenizer(options: TrainOptions, steps: int = 1600) -> None:
    """Train the VQ tokenizer to STEPS steps; resumes from its checkpoint, or from the published weights."""
    torch.set_num_threads(options.threads)
    published = _published(VQ(), "tokenizer")
    train_tokenizer(options.folder / "data", options.folder, steps=steps, seed=options.seed, published=published)


def scale(
    options: TrainOptions,
    px: int,
    steps: int = 10_000,
    batch: int = 32,
    minutes: float | None = None,
    start_from_px: int | None = None,
) -> None:
    """Train one scale; resumes from its checkpoint, or from the published weights where none exists.

    `start_from_px` begins a fresh scale with another size's weights.
    """
    torch.set_num_threads(options.threads)
    first = options.folder / f"scale-{start_from_px}.pt" if start_from_px else None
    if first is not None and not first.exists():
        raise UsageError(f"--start-from-px {start_from_px}: there is no checkpoint {first}; train that size first")
    train_scale(
        px,
        options.folder / "data",
        options.folder,
        load_tokenizer(options.folder),
        steps=steps,
        batch=batch,
        seed=options.seed,
        start_from=first,
        published=_published(EmojiNetwork(emoji_config(px)), f"scale-{px}"),
        seconds=60 * minutes if minutes is not None else float("inf"),
    )


def publish(options: TrainOptions, out: Path = PACKAGE_WEIGHTS) -> None:
    """Write float16 weights, word list and card of all trained stages into the package (or OUT)."""
    print(json.dumps(write_family(options.folder / "data", options.folder, out), indent=2))


def load_tokenizer(folder: Path) -> VQ:
    """The trained tokenizer: the checkpoint in `folder`, else the published one."""
    vq = VQ()
    path = folder / "tokenizer.pt"
    if path.exists():
        vq.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
        vq.requires_grad_(False).eval()
    else:
        fill(vq, load_tensors(PACKAGE_WEIGHTS / "tokenizer.safetensors"), "the published tokenizer")
    return vq


def _published(network: nn.Module, stage: str) -> dict[str, Any] | None:
    """Weights and step count of a published stage, to go on from on a bare machine; None if never published."""
    path = PACKAGE_WEIGHTS / f"{stage}.safetensors"
    if not path.exists():
        return None
    fill(network, load_tensors(path), path.name)
    card = json.loads((PACKAGE_WEIGHTS / "family.json").read_text(encoding="utf-8"))
    entries = [card["tokenizer"], *card["scales"].values()]
    steps = next(entry["steps"] for entry in entries if entry["file"] == path.name)
    return {"model": network.state_dict(), "step": steps}

"""The stages of training as commands: what `jobs/train.py STAGE` runs. One process, one torch thread by default."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from mulo_ray.errors import UsageError
from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.emoji.network import EmojiNetwork, emoji_config
from mulo_ray.models.vq import VQ
from mulo_ray.training import emoji_sources, pictures
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.loop import train
from mulo_ray.training.pictures import SIZES_PX, load_pictures
from mulo_ray.training.publish import publish as write_family
from mulo_ray.training.scales import ScaleStage
from mulo_ray.training.stages import Stage
from mulo_ray.training.tokenizer import TokenizerStage
from mulo_ray.training.tokens import tokenise

PACKAGE_WEIGHTS = Path(__file__).parents[1] / "models" / "emoji" / "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Options every stage shares."""

    folder: Path = Path("train")
    """Where pictures, checkpoints and metrics live."""
    threads: int = 1
    """Torch threads; on shared cores one is fastest."""
    seed: int = 0
    minutes: float | None = None
    """Stop after this long; the same command goes on from there."""
    fresh: bool = False
    """Start from nothing where no checkpoint exists, instead of from the published weights."""


def data(options: TrainOptions, icons: Path | None = None) -> None:
    """Fetch the emoji packages (npm) and draw every picture at 32, 64 and 128 px."""
    source = icons or options.folder / "icons"
    emoji_sources.fetch(source)
    found = emoji_sources.read_icons(source)
    pictures.rasterise(found, options.folder / "data")
    print(json.dumps({"pictures": len(found), "folder": str(options.folder / "data")}))


def tokenizer(options: TrainOptions, steps: int = 5000, batch: int = 24, lr: float = 4e-3) -> None:
    """Train the VQ tokenizer to STEPS steps; resumes from its checkpoint, or from the published weights."""
    sets = {px: load_pictures(options.folder / "data", px) for px in sorted(SIZES_PX, reverse=True)}
    _train(options, steps, lambda: TokenizerStage(sets, batch=batch, lr=lr, seed=options.seed, steps=steps))


def scale(
    options: TrainOptions,
    px: int,
    steps: int = 10_000,
    batch: int = 32,
    lr: float = 2e-3,
    start_from_px: int | None = None,
) -> None:
    """Train one scale; resumes from its checkpoint, or from the published weights where none exists.

    `start_from_px` begins a fresh scale with another size's weights.
    """
    shown = load_pictures(options.folder / "data", px)
    vq = load_tokenizer(options.folder)
    tokens = tokenise(vq, shown, options.folder)

    def stage() -> ScaleStage:
        fresh = ScaleStage(px, tokens, shown.records, vq, batch=batch, lr=lr, seed=options.seed)
        if start_from_px:
            fresh.network.load_state_dict(_weights_of(options.folder, start_from_px))
        return fresh

    _train(options, steps, stage)


def publish(options: TrainOptions, out: Path = PACKAGE_WEIGHTS) -> None:
    """Write float16 weights, word list and card of all trained stages into the package (or OUT)."""
    print(json.dumps(write_family(options.folder / "data", options.folder, out), indent=2))


def load_tokenizer(folder: Path) -> VQ:
    """The trained tokenizer: the checkpoint in `folder`, else the published one."""
    vq = VQ()
    path = folder / "tokenizer.pt"
    if path.exists():
        vq.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["average"])
        vq.requires_grad_(False).eval()
    else:
        fill(vq, load_tensors(PACKAGE_WEIGHTS / "tokenizer.safetensors"), "the published tokenizer")
    return vq


def _train(options: TrainOptions, steps: int, make: Callable[[], Stage]) -> None:
    torch.set_num_threads(options.threads)
    stage = make()
    published = None if options.fresh else _published(stage.network, stage.name)
    checkpoint = Checkpoint(options.folder, stage.name, published=published)
    train(stage, checkpoint, steps=steps, seconds=60 * options.minutes if options.minutes is not None else math.inf)


def _weights_of(folder: Path, px: int) -> dict[str, Tensor]:
    path = folder / f"scale-{px}.pt"
    if path.exists():
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)["average"]
        return state
    published = _published(EmojiNetwork(emoji_config(px)), f"scale-{px}")
    if published is None:
        raise UsageError(
            f"--start-from-px {px}: there is no checkpoint {path} and no published scale; train that size first"
        )
    return published[0]


def _published(network: nn.Module, name: str) -> tuple[dict[str, Tensor], int] | None:
    """Weights and step count of a published stage, to go on from on a bare machine; None if never published."""
    path = PACKAGE_WEIGHTS / f"{name}.safetensors"
    if not path.exists():
        return None
    fill(network, load_tensors(path), path.name)
    network.requires_grad_(True).train()
    card = json.loads((PACKAGE_WEIGHTS / "family.json").read_text(encoding="utf-8"))
    entries = [card["tokenizer"], *card["scales"].values()]
    steps = next(entry["steps"] for entry in entries if entry["file"] == path.name)
    return network.state_dict(), steps

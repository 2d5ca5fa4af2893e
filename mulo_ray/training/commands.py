"""The stages of training as commands: what `jobs/train.py STAGE` runs, on Ray Train or in this process."""

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from mulo_ray.errors import RunError, UsageError
from mulo_ray.models.emoji.network import EmojiNetwork, emoji_config
from mulo_ray.models.vq import VQ
from mulo_ray.training import emoji_sources, image_sets, pictures
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.distributed import Training, run_here, run_on_ray
from mulo_ray.training.eagle import EagleStage
from mulo_ray.training.folders import Folder
from mulo_ray.training.perceptual import PerceptualName, perceptual_distance
from mulo_ray.training.pictures import SIZES_PX, load_pictures
from mulo_ray.training.publish import publish as write_family
from mulo_ray.training.rescaler_losses import LossName
from mulo_ray.training.rescalers import RescalerStage
from mulo_ray.training.scales import ScaleStage
from mulo_ray.training.shapes import draw_shapes
from mulo_ray.training.stages import Stage
from mulo_ray.training.starts import PACKAGE_WEIGHTS, load_tokenizer, published_weights, scale_weights, sizes_of
from mulo_ray.training.tokenizer import TokenizerStage
from mulo_ray.training.tokens import tokenise

SMOKE_NATS = 1.5
"""What the loss must fall by in a smoke run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Options every stage shares."""

    folder: Path = Path("train")
    """Where pictures and their tokens live; every worker must see it at this path."""
    checkpoints: str | None = None
    """Folder or URI for checkpoints, metrics and sheets; the same folder by default."""
    workers: int = 1
    """Ray Train workers; 0 trains in this process without Ray."""
    threads: int = 1
    """Torch threads per worker; on shared cores one is fastest."""
    seed: int = 0
    minutes: float | None = None
    """Stop after this long; the same command goes on from there."""
    save_every_s: float = 180.0
    """Seconds between checkpoints: what a kill can cost."""
    fresh: bool = False
    """Start from nothing where no checkpoint exists, instead of from the published weights."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("workers", self.workers, 0),
            ("threads", self.threads, 1),
            ("save-every-s", self.save_every_s, 0),
        ):
            if value < least:
                raise UsageError(f"--{name} must be {least} or more, got {value}")

    @property
    def place(self) -> str:
        """Where checkpoints go."""
        return self.checkpoints or str(self.folder)


def data(options: TrainOptions, icons: Path | None = None, images: str | None = None) -> None:
    """Make the picture set: the emoji packages (npm, or ICONS where they lie), or your own IMAGES with captions.

    IMAGES is a folder with metadata.jsonl (file_name, text), WebDataset shards (*.tar), or Parquet files with an image
    and a text column.
    """
    place = options.folder / "data"
    if images is not None:
        count = image_sets.write_pictures(images, place)
    else:
        source = icons or options.folder / "icons"
        emoji_sources.fetch(source)
        found = emoji_sources.read_icons(source)
        pictures.rasterise(found, place)
        count = len(found)
    print(json.dumps({"pictures": count, "folder": str(place)}))


def tokenizer(options: TrainOptions, steps: int = 5000, batch: int = 24, lr: float = 4e-3) -> None:
    """Train the VQ tokenizer to STEPS steps; resumes from its checkpoint, or from the published weights."""
    _train(options, steps, functools.partial(build_tokenizer, options, steps, batch, lr))


def scale(
    options: TrainOptions,
    px: int,
    steps: int = 10_000,
    batch: int = 32,
    early: int = 48,
    noise: float = 0.15,
    lr: float = 2e-3,
    start_from_px: int | None = None,
) -> None:
    """Train one scale; resumes from its checkpoint, or from the published weights where none exists.

    A step has BATCH whole pictures, and of EARLY others the first row, where the caption chooses the picture. Each is
    read with up to the share NOISE of another picture's cells, which it learns to go on from.
    `start_from_px` begins a fresh scale with another size's weights.
    """
    if early < 0:
        raise UsageError(f"--early must be 0 (whole pictures only) or more, got {early}")
    if not 0 <= noise <= 1:
        raise UsageError(f"--noise must be between 0 (none) and 1 (up to every cell), got {noise}")
    build = functools.partial(build_scale, options, px, batch, lr, start_from_px, early, noise)
    build()  # tokens are made once, here, and mistakes come before any worker starts
    _train(options, steps, build, fresh=options.fresh or start_from_px is not None)


def rescaler(
    options: TrainOptions,
    low_px: int,
    px: int,
    loss: LossName = "pixels",
    perceptual: PerceptualName = "none",
    channels: int = 64,
    steps: int = 2000,
    batch: int = 32,
    lr: float = 2e-3,
) -> None:
    """Train the learned samplers between two sizes; `distil` needs the trained scale of PX.

    `perceptual` is a distance on features beside the pixels': of efficientnet-lite0 (extra `eval`), or LPIPS.
    """
    if px % low_px or px <= low_px:
        raise UsageError(f"--px must be a whole multiple of --low-px, got {px} and {low_px}")
    build = functools.partial(build_rescaler, options, low_px, px, loss, perceptual, channels, batch, lr)
    build()
    _train(options, steps, build)


def eagle(options: TrainOptions, px: int, steps: int = 3000, batch: int = 32, lr: float = 1e-3) -> None:
    """Train the EAGLE head of the scale of PX, which stays as it is; `eagle2` and `lantern` draft with it."""
    build = functools.partial(build_eagle, options, px, batch, lr)
    build()
    _train(options, steps, build)


def publish(options: TrainOptions, out: Path = PACKAGE_WEIGHTS, evaluation: Path | None = None) -> None:
    """Write float16 weights, word list, card and model card of all trained stages into the package (or OUT).

    `evaluation` is the `emoji.json` of an evaluation of these weights: its figures go into the model card.
    """
    card = write_family(options.folder / "data", options.place, out, evaluation)
    print(json.dumps({name: value for name, value in card.items() if name != "evaluation"}, indent=2))


def smoke(options: TrainOptions, tokenizer_steps: int = 40, scale_steps: int = 120) -> None:
    """Every stage from nothing on drawn shapes, in minutes; fails unless the scale's loss falls by 1.5 nats."""
    fresh = dataclasses.replace(options, fresh=True)
    draw_shapes(options.folder / "shapes")
    data(fresh, images=str(options.folder / "shapes"))
    tokenizer(fresh, steps=tokenizer_steps, batch=12)
    scale(fresh, 32, steps=scale_steps, batch=16)
    lines = (Folder(fresh.place).read("scale-32.metrics.jsonl") or b"").decode().splitlines()
    losses = [record["loss"] for record in map(json.loads, lines) if "loss" in record]
    publish(fresh, options.folder / "family")
    start = math.log(load_tokenizer(fresh.place).config.codebook_size)
    print(json.dumps({"nats_at_start": round(start, 3), "nats_at_end": losses[-1]}))
    if start - losses[-1] < SMOKE_NATS:
        raise RunError(
            f"the loss fell from {start:.2f} to {losses[-1]:.2f} nats per token, less than {SMOKE_NATS}: "
            "training is broken"
        )


def build_tokenizer(options: TrainOptions, steps: int, batch: int, lr: float) -> TokenizerStage:
    """The stage as a worker builds it."""
    sets = {px: load_pictures(options.folder / "data", px) for px in sorted(SIZES_PX, reverse=True)}
    config = load_tokenizer(options.place).config if not options.fresh else None
    return TokenizerStage(sets, config=config, batch=batch, lr=lr, seed=options.seed, steps=steps)


def build_scale(
    options: TrainOptions, px: int, batch: int, lr: float, start_from_px: int | None, early: int = 0, noise: float = 0.0
) -> ScaleStage:
    """The stage as a worker builds it."""
    torch.set_num_threads(options.threads)
    shown = load_pictures(options.folder / "data", px)
    vq: VQ = load_tokenizer(options.place)
    tokens = tokenise(vq, shown, options.folder)
    sizes = sizes_of(options.place, px, fresh=options.fresh or start_from_px is not None)
    stage = ScaleStage(
        px, tokens, shown.records, vq, sizes=sizes, batch=batch, early=early, noise=noise, lr=lr, seed=options.seed
    )
    if start_from_px:
        weights = scale_weights(options.place, start_from_px)
        stage.network.load_state_dict(weights, strict=False)  # a smaller scale may have fewer layers
        stage.average.network.load_state_dict(stage.network.state_dict())
    return stage


def build_eagle(options: TrainOptions, px: int, batch: int, lr: float) -> EagleStage:
    """The stage as a worker builds it."""
    scale = build_scale(options, px, batch, lr, None)
    weights = scale_weights(options.place, px)
    scale.network.load_state_dict(weights)
    scale.average.load(weights, 0)
    return EagleStage(px, scale, lr=lr)


def build_rescaler(
    options: TrainOptions,
    low_px: int,
    px: int,
    loss: LossName,
    perceptual: PerceptualName,
    channels: int,
    batch: int,
    lr: float,
) -> RescalerStage:
    """The stage as a worker builds it."""
    torch.set_num_threads(options.threads)
    vq = load_tokenizer(options.place)
    sets = {size: load_pictures(options.folder / "data", size) for size in (low_px, px)}
    low, high = (tokenise(vq, shown, options.folder) for shown in sets.values())
    teacher: EmojiNetwork | None = None
    if loss == "distil":
        sizes = sizes_of(options.place, px)
        teacher = EmojiNetwork(emoji_config(px, vq.config.codebook_size, sizes.layers), sizes.text_dim)
        teacher.load_state_dict(scale_weights(options.place, px))
        teacher.requires_grad_(False).eval()
    records = sets[px].records
    return RescalerStage(
        low,
        high,
        records,
        vq,
        ratio=px // low_px,
        loss=loss,
        teacher=teacher,
        perceptual=perceptual_distance(perceptual),
        channels=channels,
        batch=batch,
        lr=lr,
        seed=options.seed,
    )


def _train(options: TrainOptions, steps: int, build: Callable[[], Stage], *, fresh: bool = False) -> None:
    training = Training(
        stage=build,
        checkpoint=functools.partial(_open, options, fresh or options.fresh),
        steps=steps,
        seconds=60 * options.minutes if options.minutes is not None else math.inf,
        threads=options.threads,
    )
    if options.workers == 0:
        run_here(training)
    else:
        run_on_ray(training, workers=options.workers, gpu=torch.cuda.is_available())


def _open(options: TrainOptions, fresh: bool, stage: Stage) -> Checkpoint:
    """Published weights are a start only for a stage on the published tokenizer."""
    tokenizer = stage.tokenizer if isinstance(stage, ScaleStage | RescalerStage | EagleStage) else None
    published = None if fresh else published_weights(stage.network, stage.name, tokenizer)
    return Checkpoint(options.place, stage.name, every_s=options.save_every_s, published=published)

"""Train one scale of the embedded family on tokens of its pictures. Knows no decoding.

Muon moves the matrices of the blocks, AdamW everything else; conditions are dropped for guidance, words are hidden
so that letter groups learn to stand in for unknown ones.
"""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.models.emoji.network import EmojiNetwork, emoji_config
from mulo_ray.models.text import BUCKETS, condition_ids, prompt_used
from mulo_ray.models.vq import VQ
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.muon import Muon
from mulo_ray.training.pictures import Pictures, load_pictures

_DROP_CAPTION, _DROP_WORD, _DROP_STYLE = 0.1, 0.1, 0.4


@torch.inference_mode()
def tokenise(vq: VQ, pictures: Pictures, cache: Path) -> Tensor:
    """Tokens (n, N) int16 of every picture, kept in `cache`."""
    if cache.exists():
        cached: Tensor = torch.load(cache, weights_only=True)
        return cached
    out = []
    for start in range(0, len(pictures.pixels), 64):
        pixels = torch.from_numpy(pictures.pixels[start : start + 64].copy()).permute(0, 3, 1, 2).float() / 255
        out.append(vq.encode(pixels).flatten(1).to(torch.int16))
    tokens = torch.cat(out)
    torch.save(tokens, cache)
    return tokens


def train_scale(
    px: int,
    data: Path,
    folder: Path,
    vq: VQ,
    *,
    steps: int,
    batch: int = 32,
    lr: float = 2e-3,
    seed: int = 0,
    start_from: Path | None = None,
    published: dict[str, Any] | None = None,
    seconds: float = math.inf,
) -> EmojiNetwork:
    """Train the scale of `px` pixels to `steps` steps (or for `seconds`); resumes from its checkpoint in `folder`.

    `published` (weights and step) is where a run without a checkpoint goes on; `start_from` is the checkpoint of
    another size, taken as the first weights of a fresh run.
    """
    torch.manual_seed(seed)
    model = EmojiNetwork(emoji_config(px, vq.config.codebook_size))
    _initialise(model)
    optimizers = _optimizers(model, lr)
    checkpoint = Checkpoint(folder, f"scale-{px}")
    extra = checkpoint.load(model, optimizers)
    if extra is None:
        extra = {"step": 0}
        if start_from is not None:
            model.load_state_dict(torch.load(start_from, map_location="cpu", weights_only=True)["model"])
        elif published is not None:
            model.load_state_dict(published["model"])
            extra = {"step": published["step"]}
    pictures = load_pictures(data, px)
    tokens = tokenise(vq, pictures, folder / f"tokens-{px}.pt")
    words = [prompt_used(name, frozenset()) for name in pictures.names]
    first, started, running = extra["step"], time.monotonic(), float("nan")
    batches = _batches(tokens, words, pictures.styles, batch, seed, first)
    for step in range(first, steps):
        rate = _schedule(step, steps)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * rate
        ids, targets = next(batches)
        loss = F.cross_entropy(model(ids, targets).flatten(0, 1), targets.flatten())
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        running = loss.item() if math.isnan(running) else 0.98 * running + 0.02 * loss.item()
        extra = {"step": step + 1}
        checkpoint.save_if_due(model, optimizers, extra)
        if step % 50 == 49:
            per_s = (step + 1 - first) / (time.monotonic() - started)
            checkpoint.log(
                px=px, step=step + 1, loss=running, pictures_per_s=per_s * batch, epoch=(step + 1) * batch / len(words)
            )
        if time.monotonic() - started > seconds:
            break
    checkpoint.save(model, optimizers, extra)
    return model


def _schedule(step: int, steps: int) -> float:
    """Warm-up over 100 steps, constant, then linear to a twentieth over the last third."""
    return min(1.0, (step + 1) / 100, 0.05 + 0.95 * (steps - step) / (steps / 3))


def _batches(
    tokens: Tensor, words: list[str], styles: list[str], batch: int, seed: int, first: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled epochs from step `first` on: condition ids with drops, and tokens."""
    step = 0
    epoch = 0
    while True:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(words), generator=generator)
        for start in range(0, len(order) - batch + 1, batch):
            step += 1
            if step <= first:
                continue
            chosen = order[start : start + batch]
            g = torch.Generator().manual_seed((seed << 32) + step)
            with_style = torch.rand(batch, generator=g) > _DROP_STYLE
            captions = [
                f"{styles[i]} {words[i]}" if s else words[i] for i, s in zip(chosen.tolist(), with_style, strict=True)
            ]
            ids = condition_ids(captions)
            ids[..., 0][torch.rand(ids.shape[:2], generator=g) < _DROP_WORD] = BUCKETS
            ids[torch.rand(batch, generator=g) < _DROP_CAPTION] = BUCKETS
            yield ids, tokens[chosen].long()
        epoch += 1


def _optimizers(model: EmojiNetwork, lr: float) -> list[torch.optim.Optimizer]:
    matrices = [p for p in model.body.layers.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    return [
        Muon(_group(matrices, lr), lr=lr),
        torch.optim.AdamW(_group(others, lr), lr=lr, betas=(0.9, 0.97), weight_decay=0.0),
    ]


def _group(parameters: list[nn.Parameter], lr: float) -> list[dict[str, object]]:
    return [{"params": parameters, "initial_lr": lr}]


def _initialise(model: EmojiNetwork) -> None:
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and "place" not in name:
            deep = name.endswith(("wo.weight", "w2.weight"))
            nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * 6) if deep else 1) if "text" not in name else 0.3)
    nn.init.normal_(model.body.output.weight, std=0.002)
    for table in (model.text.word, model.text.gram):
        nn.init.zeros_(table.weight.data[BUCKETS])

"""Train the VQ tokenizer on crops and whole pictures of every size. Knows no transformer."""

import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.models.vq import VQ
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.pictures import Pictures, load_pictures

_BATCHES = {128: 24, 64: 24, 32: 72}  # pictures per step by source size; a 128 px picture gives one 64 px crop


def train_tokenizer(
    data: Path,
    folder: Path,
    *,
    steps: int,
    lr: float = 2e-3,
    seed: int = 0,
    held_out: int = 64,
    published: dict[str, Any] | None = None,
) -> VQ:
    """Train or go on training to `steps`; returns the network and leaves the checkpoint in `folder`.

    `published` (weights and step) is where a run without a checkpoint goes on. Loss: L1 + MSE on pixels, codebook and
    commitment terms on unit vectors (straight-through); codes that no vector chose for long move onto encoder outputs.
    """
    torch.manual_seed(seed)
    model = VQ()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=1e-4)
    checkpoint = Checkpoint(folder, "tokenizer")
    extra = checkpoint.load(model, [optimizer])
    if extra is None:
        extra = {"step": 0, "idle": torch.zeros(model.config.codebook_size)}
        if published is not None:
            model.load_state_dict(published["model"])
            extra["step"] = published["step"]
    idle: Tensor = extra["idle"]
    sets = {px: load_pictures(data, px) for px in _BATCHES}
    generator = torch.Generator().manual_seed(seed + 1 + extra["step"])
    started, first = time.monotonic(), extra["step"]
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = (
                lr * min(1.0, (step + 1) / 100) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))
            )
        pixels = _batch(sets, generator, held_out)
        vectors = model.embed(pixels)
        if step == 0:
            _reseed(model, vectors, torch.ones(model.config.codebook_size, dtype=torch.bool), generator)
        tokens = model.nearest(vectors)
        codes = F.normalize(model.codebook, dim=-1)[tokens]
        commitment = (vectors - codes.detach()).square().sum(-1).mean()
        codebook = (vectors.detach() - codes).square().sum(-1).mean()
        out = model.decode_vectors(vectors + (codes - vectors).detach())
        mse = F.mse_loss(out, pixels)
        loss = 4 * mse + F.l1_loss(out, pixels) + 0.05 * (commitment * 0.5 + codebook)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        idle += 1
        idle[tokens.unique()] = 0
        if step % 20 == 19 and step < steps * 0.8:
            _reseed(model, vectors.detach(), idle > 60, generator)
            idle[idle > 60] = 0
        extra = {"step": step + 1, "idle": idle}
        checkpoint.save_if_due(model, [optimizer], extra)
        if step % 50 == 49:
            rate = (step + 1 - first) / (time.monotonic() - started)
            checkpoint.log(
                step=step + 1,
                loss=loss.item(),
                psnr=psnr(mse.detach()),
                used=float((idle < 60).float().mean()),
                steps_per_s=rate,
            )
    checkpoint.save(model, [optimizer], extra)
    for px, pictures in sets.items():
        model.eval()
        with torch.inference_mode():
            x = _to_float(torch.from_numpy(pictures.pixels[:: max(1, len(pictures.pixels) // held_out)].copy()))
            checkpoint.log(step=steps, px=px, held_out_psnr=psnr(F.mse_loss(model.decode(model.encode(x)), x)))
    return model


def psnr(mse: Tensor) -> float:
    """Peak signal-to-noise ratio in dB for pixels in [0, 1]."""
    return -10 * math.log10(max(float(mse), 1e-12))


def _to_float(pixels_BHWC: Tensor) -> Tensor:
    return pixels_BHWC.permute(0, 3, 1, 2).float() / 255


def _batch(sets: dict[int, Pictures], generator: torch.Generator, held_out: int) -> Tensor:
    """Crops of 64 px from 128 px pictures half of the time, else whole pictures of 64 or 32 px."""
    px = (128, 128, 64, 32)[int(torch.randint(4, (1,), generator=generator))]
    pictures, count = sets[px].pixels, _BATCHES[px]
    every = max(2, len(pictures) // held_out)
    index = torch.randint(len(pictures), (count * 2,), generator=generator)
    index = index[index % every != 0][:count]  # every n-th picture is held out
    batch = torch.from_numpy(pictures[index.numpy()])
    if px == 128:
        top, left = (int(v) for v in torch.randint(0, 65, (2,), generator=generator))
        batch = batch[:, top : top + 64, left : left + 64]
    return _to_float(batch)


def _reseed(model: VQ, vectors_BHWD: Tensor, codes: Tensor, generator: torch.Generator) -> None:
    flat = vectors_BHWD.reshape(-1, vectors_BHWD.shape[-1])
    chosen = torch.randint(len(flat), (int(codes.sum()),), generator=generator)
    model.codebook.data[codes] = F.normalize(
        flat[chosen] + 0.01 * torch.randn(len(chosen), flat.shape[1], generator=generator), dim=-1
    ).detach()

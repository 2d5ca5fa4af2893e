"""The VQ tokenizer as a stage of training: crops and whole pictures of every size. Knows no transformer."""

import dataclasses
import math
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.models.vq import VQ, VQConfig
from mulo_ray.training.optimizers import split_optimizers
from mulo_ray.training.pictures import Pictures
from mulo_ray.training.stages import Average, Measured, Share

_CROP_PX = 64
_IDLE_STEPS = 60
"""A code that no vector chose for this many steps moves onto an encoder output."""
_HELD_OUT_SHOWN = 8
_RELATIVE, _FLOOR = 0.02, 1e-3
"""Weight of the logarithmic error, which makes flat pictures count as much as busy ones, and where it levels off."""


class TokenizerStage:
    """Loss: logarithm of each picture's MSE, L1, and codebook and commitment terms on unit vectors (straight-through).

    `sets` are the same pictures at several sizes; the largest gives crops, the others whole pictures.
    """

    def __init__(
        self,
        sets: dict[int, Pictures],
        *,
        config: VQConfig | None = None,
        lr: float = 2e-3,
        batch: int = 24,
        seed: int = 0,
        steps: int = 10_000,
        check: int = 96,
    ) -> None:
        torch.manual_seed(seed)
        self.name = "tokenizer"
        self._sets, self._seed, self._batch_size, self._steps = sets, seed, batch, steps
        self.network = VQ(config)
        self.average = Average(self.network)
        trunk = [*self.network.encoder.parameters(), *self.network.decoder.parameters()]
        self.optimizers = split_optimizers(self.network, trunk, lr=lr)
        self._idle = torch.zeros(self.network.config.codebook_size)
        first = next(iter(sets.values()))
        self._train = torch.from_numpy(first.split("train"))
        self._held_out = first.split("concept", "combination")[:check]
        self._vectors: Tensor | None = None
        self._share = Share()
        self._device = torch.device("cpu")

    def to(self, device: str) -> None:
        """See `stages.Stage.to`."""
        self._device = torch.device(device)
        self._idle = self._idle.to(device)
        self.network.to(device)
        self.average.network.to(device)

    def loss(self, step: int, share: Share) -> Measured:
        """See `stages.Stage.loss`."""
        generator = torch.Generator().manual_seed((self._seed << 32) + step)
        pixels = self._batch(generator)
        count = len(pixels)
        pixels = share.of(pixels).to(self._device)
        vectors = self.network.embed(pixels).float()
        if step == 0:
            self._move_codes(torch.ones_like(self._idle, dtype=torch.bool), vectors.detach(), generator, share)
        with torch.autocast(self._device.type, enabled=False):  # of codes this close, bfloat16 takes others
            tokens = self.network.nearest(vectors)
        codes = F.normalize(self.network.codebook, dim=-1)[tokens]
        commitment = (vectors - codes.detach()).square().sum(-1).mean()
        codebook = (vectors.detach() - codes).square().sum(-1).mean()
        out = self.network.decode_vectors(vectors + (codes - vectors).detach())
        errors_B = (out - pixels).square().mean((1, 2, 3))
        error = _RELATIVE * (errors_B + _FLOOR).log().mean() + 0.25 * F.l1_loss(out, pixels)
        loss = error + 0.05 * (commitment * 0.5 + codebook)
        self._idle += 1
        self._idle[tokens.unique()] = 0
        self._vectors, self._share = vectors.detach(), share
        return Measured(loss=loss, pictures=count, values={"psnr": psnr(errors_B.detach().mean())})

    def after_step(self, step: int) -> None:
        """Idle codes start anew, until the last fifth of the run."""
        if step % 20 != 19 or step >= self._steps * 0.8:
            return
        if self._share.world > 1:
            dist.all_reduce(self._idle, dist.ReduceOp.MIN)  # used by any worker is used
        idle = self._idle > _IDLE_STEPS
        if bool(idle.any()):
            assert self._vectors is not None, "a step has a batch"
            generator = torch.Generator().manual_seed((self._seed << 33) + step)
            self._move_codes(idle, self._vectors, generator, self._share)
            self._idle[idle] = 0

    def extra(self) -> dict[str, Any]:
        return {"idle": self._idle, "config": dataclasses.asdict(self.network.config), "seed": self._seed}

    def restore(self, extra: dict[str, Any]) -> None:
        self._idle = extra["idle"].to(self._device)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Held-out PSNR at each size in dB, as the mean over pictures and of the pooled error; share of codes used."""
        if not len(self._held_out):
            return {}
        used = set()
        found = {}
        for px, pictures in self._sets.items():
            x = _to_float(torch.from_numpy(pictures.pixels[self._held_out])).to(self._device)
            tokens = self.average.network.encode(x)
            used |= set(tokens.flatten().tolist())
            errors_B = (self.average.network.decode(tokens) - x).square().mean((1, 2, 3))
            found[f"held_out_psnr_{px}px"] = sum(map(psnr, errors_B)) / len(errors_B)
            found[f"held_out_psnr_pooled_{px}px"] = psnr(errors_B.mean())
        return {**found, "codes_used": len(used) / self.network.config.codebook_size}

    @torch.inference_mode()
    def sheet(self) -> np.ndarray | None:
        """Held-out pictures above what the tokenizer makes of them, one pair of rows per size."""
        rows = []
        shown = self._held_out[:: max(1, len(self._held_out) // _HELD_OUT_SHOWN)][:_HELD_OUT_SHOWN]
        if not len(shown):
            return None
        for pictures in self._sets.values():
            x = _to_float(torch.from_numpy(pictures.pixels[shown])).to(self._device)
            for images in (x, self.average.network.decode(self.average.network.encode(x))):
                big = F.interpolate(images, size=128, mode="nearest")
                rows.append(np.concatenate(list((big.permute(0, 2, 3, 1) * 255).round().byte().cpu().numpy()), axis=1))
        return np.concatenate(rows)

    def _batch(self, generator: torch.Generator) -> Tensor:
        """One size per step, its pictures mirrored, turned and recoloured at random, cut to at most 64 px."""
        sizes = sorted(self._sets, reverse=True)
        weights = torch.tensor([2.0, *(1.0 for _ in sizes[1:])])
        px = sizes[int(torch.multinomial(weights, 1, generator=generator))]
        count = self._batch_size * max(1, min(3, (_CROP_PX // px) ** 2))
        index = self._train[torch.randint(len(self._train), (count,), generator=generator)]
        x = _to_float(torch.from_numpy(self._sets[px].pixels[index.numpy()]))
        if px > _CROP_PX:
            top, left = (int(v) for v in torch.randint(0, px - _CROP_PX + 1, (2,), generator=generator))
            x = x[:, :, top : top + _CROP_PX, left : left + _CROP_PX]
        turns, mirror = (int(v) for v in torch.randint(0, 4, (2,), generator=generator))
        x = torch.rot90(x, turns, (2, 3)) if turns < 2 else x
        x = x.flip(3) if mirror < 2 else x
        recoloured = torch.rand(count, generator=generator) < 0.25
        x[recoloured] = x[recoloured][:, torch.randperm(3, generator=generator)]
        return x

    def _move_codes(self, codes: Tensor, vectors_BHWD: Tensor, generator: torch.Generator, share: Share) -> None:
        flat = vectors_BHWD.reshape(-1, vectors_BHWD.shape[-1])
        chosen = torch.randint(len(flat), (int(codes.sum()),), generator=generator)
        near = flat[chosen] + 0.01 * torch.randn(len(chosen), flat.shape[1], generator=generator).to(flat)
        for codebook in (self.network.codebook, self.average.network.codebook):
            codebook.data[codes] = F.normalize(near, dim=-1)
            if share.world > 1:
                dist.broadcast(codebook.data, 0)  # every worker saw other vectors


def psnr(mse: Tensor) -> float:
    """Peak signal-to-noise ratio in dB for pixels in [0, 1]."""
    return -10 * math.log10(max(float(mse), 1e-12))


def _to_float(pixels_BHWC: Tensor) -> Tensor:
    return pixels_BHWC.permute(0, 3, 1, 2).float() / 255

"""A learned pair of samplers between two scales as a stage of training; the tokenizer stays as it is. Knows no file."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.models.latent_rescaler import LatentResampler, LatentRescaler, LatentRescalerConfig
from mulo_ray.models.text import condition_ids, prompt_used
from mulo_ray.models.vq import VQ
from mulo_ray.training.optimizers import split_optimizers
from mulo_ray.training.pictures import Record
from mulo_ray.training.rescaler_losses import (
    LossName,
    PatchCritic,
    Teacher,
    distil_loss,
    pixel_loss,
    token_loss,
)
from mulo_ray.training.stages import Average, Measured, Share
from mulo_ray.training.tokenizer import psnr
from mulo_ray.training.tokens import TokenSet, fingerprint, refuse_other_tokenizer

_SHOWN = 8


class RescalerStage:
    """Up- and down-sampler of one ratio, on the tokens of the same pictures at a lower and a higher size.

    `loss` is `tokens` (a), `pixels` (b), `adversarial` (c, pixels and a critic) or `distil` (d, needs the `teacher`);
    the down-sampler always learns the lower tokens.
    """

    def __init__(
        self,
        low: TokenSet,
        high: TokenSet,
        records: Sequence[Record],
        vq: VQ,
        *,
        ratio: int,
        loss: LossName = "pixels",
        teacher: Teacher | None = None,
        perceptual: nn.Module | None = None,
        channels: int = 64,
        batch: int = 32,
        lr: float = 2e-3,
        seed: int = 0,
        check: int = 96,
    ) -> None:
        assert loss != "distil" or teacher is not None, "distillation needs the target"
        torch.manual_seed(seed)
        self.name = f"rescaler-x{ratio}"
        self.tokenizer = fingerprint(vq)
        self._low, self._high, self._records, self._vq = low, high, records, vq
        self._loss, self._teacher, self._perceptual = loss, teacher, perceptual
        self._batch_size, self._seed = batch, seed
        self.network = LatentRescaler(LatentRescalerConfig(ratio=ratio, code_dim=vq.config.code_dim, channels=channels))
        self.average = Average(self.network)
        self.optimizers = split_optimizers(self.network, self.network.parameters(), lr=lr)
        self._critic = PatchCritic()
        self._critic_optimizer = torch.optim.AdamW(self._critic.parameters(), lr=2e-4, betas=(0.5, 0.9))
        self._train = torch.tensor([i for i, r in enumerate(records) if r.split == "train"])
        self._held_out = torch.tensor(
            [i for i, r in enumerate(records) if r.split != "train"][:check], dtype=torch.int64
        )
        self._device = torch.device("cpu")

    def to(self, device: str) -> None:
        """See `stages.Stage.to`."""
        self._device = torch.device(device)
        for network in (self.network, self.average.network, self._critic, self._vq, self._perceptual):
            if network is not None:
                network.to(device)

    def loss(self, step: int, share: Share) -> Measured:
        """See `stages.Stage.loss`."""
        generator = torch.Generator().manual_seed((self._seed << 32) + step)
        chosen = self._train[torch.randint(len(self._train), (self._batch_size,), generator=generator)]
        mirrored = torch.rand(len(chosen), generator=generator) < 0.5
        mine = share.of(torch.arange(len(chosen)))
        low, high = (self._grid(tokens, chosen[mine], mirrored[mine]) for tokens in (self._low, self._high))
        codebook = F.normalize(self._vq.codebook, dim=-1)
        up = self.network.up_vectors(codebook[low])
        loss = token_loss(self.network.down_vectors(codebook[high]), low, codebook)
        if self._loss == "tokens":
            loss = loss + token_loss(up, high, codebook)
        elif self._loss == "distil":
            assert self._teacher is not None, "checked at the start"
            loss = loss + distil_loss(up, self._ids(chosen[mine]), codebook, self._teacher)
        else:
            pixels, made = pixel_loss(up, high, self._vq, self._perceptual)
            loss = loss + pixels
            if self._loss == "adversarial":
                self._train_critic(self._vq.decode(high), made.detach())
                loss = loss + self._critic.penalty(made)
        return Measured(loss=loss, pictures=len(chosen))

    def after_step(self, step: int) -> None:
        """Nothing."""

    def extra(self) -> dict[str, Any]:
        return {
            "config": dataclasses.asdict(self.network.config),
            "tokenizer": self.tokenizer,
            "seed": self._seed,
            "critic": self._critic.state_dict(),
            "critic_optimizer": self._critic_optimizer.state_dict(),
        }

    def restore(self, extra: dict[str, Any]) -> None:
        refuse_other_tokenizer(self.name, extra, self.tokenizer)
        self._critic.load_state_dict(extra["critic"])
        self._critic_optimizer.load_state_dict(extra["critic_optimizer"])

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On held-out pictures: share of tokens met up and down, and PSNR in dB against the decoded true tokens."""
        if not len(self._held_out):
            return {}
        low, high, up = self._held_out_grids()
        down = LatentResampler(self.average.network, self._vq.codebook).down(high)
        return {
            "held_out_tokens_up": float((up == high).float().mean()),
            "held_out_tokens_down": float((down == low).float().mean()),
            "held_out_psnr_up": psnr(F.mse_loss(self._vq.decode(up), self._vq.decode(high))),
        }

    @torch.inference_mode()
    def sheet(self) -> np.ndarray | None:
        """Held-out pictures at the lower size, up-sampled, and as they are at the higher size."""
        if not len(self._held_out):
            return None
        rows = []
        for tokens in self._held_out_grids():
            big = F.interpolate(self._vq.decode(tokens[:_SHOWN]), size=128, mode="nearest")
            rows.append(np.concatenate(list((big.permute(0, 2, 3, 1) * 255).round().byte().cpu().numpy()), axis=1))
        return np.concatenate([rows[0], rows[2], rows[1]])

    def _held_out_grids(self) -> tuple[Tensor, Tensor, Tensor]:
        plain = torch.zeros(len(self._held_out), dtype=torch.bool)
        low, high = (self._grid(tokens, self._held_out, plain) for tokens in (self._low, self._high))
        return low, high, LatentResampler(self.average.network, self._vq.codebook).up(low)

    def _grid(self, tokens: TokenSet, index: Tensor, mirrored: Tensor) -> Tensor:
        flat = tokens.of(index, mirrored)
        side = round(flat.shape[1] ** 0.5)
        return flat.view(-1, side, side).to(self._device)

    def _ids(self, index: Tensor) -> Tensor:
        records = [self._records[i] for i in index.tolist()]
        return condition_ids([prompt_used(f"{r.style} {r.name}", frozenset()) for r in records]).to(self._device)

    def _train_critic(self, real: Tensor, made: Tensor) -> None:
        loss = self._critic.loss(real, made)
        self._critic_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._critic_optimizer.step()

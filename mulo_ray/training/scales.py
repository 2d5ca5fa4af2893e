"""One scale of a family as a stage of training: its transformer on tokens of its pictures. Knows no file.

Conditions are dropped for guidance, words are hidden so that letter groups learn to stand in for unknown ones. A step
has whole pictures and, at a tenth of their cost, many more cut after their first row: there the caption chooses the
picture, and a scale that knows its pictures by heart still has the most to learn (docs/log.md, 2026-12-03). Some cells
are read from another picture, so that one that went wrong does not lead astray (docs/log.md, 2026-12-07).
"""

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.models.emoji.network import EmojiNetwork, EmojiSizes, default_sizes, emoji_config
from mulo_ray.models.text import BUCKETS, condition_ids, prompt_used
from mulo_ray.models.vq import VQ
from mulo_ray.training.captions import Described, caption
from mulo_ray.training.optimizers import split_optimizers
from mulo_ray.training.pictures import Record
from mulo_ray.training.samples import sample_pictures
from mulo_ray.training.stages import Average, Measured, Share
from mulo_ray.training.tokens import TokenSet, fingerprint, refuse_other_tokenizer

_DROP_CAPTION, _DROP_WORD, _MIRROR = 0.1, 0.1, 0.05
_EARLY_STREAM = 1_000_000
"""Added to the step for the first rows of a step: other pictures, other captions."""
_CHECK_BATCH = 32
SHEET = (
    "red heart",
    "crying cat",
    "slice of pizza",
    "flag of Japan",
    "snowy mountain",
    "twemoji dog",
    "noto rocket",
    "tree",
)


class ScaleStage:
    """Cross-entropy of every token given the caption and the tokens before it.

    A step is `batch` whole pictures and the first rows of `early` others, every token of weight one. Of the tokens
    before it a picture gets up to the share `noise` from another one; what is to be said stays its own.
    """

    def __init__(
        self,
        px: int,
        tokens: TokenSet,
        records: Sequence[Record],
        vq: VQ,
        *,
        sizes: EmojiSizes | None = None,
        batch: int = 32,
        early: int = 0,
        noise: float = 0.0,
        lr: float = 2e-3,
        seed: int = 0,
        check: int = 128,
    ) -> None:
        torch.manual_seed(seed)
        self.name = f"scale-{px}"
        self.tokenizer = fingerprint(vq)
        self._tokens, self._records, self._vq = tokens, records, vq
        self._seed, self._noise = seed, noise
        self._train = _indices(records, "train")
        self._names = sorted({records[i].name for i in self._train.tolist()})
        self._batch_size, self._early_size = (min(size, len(self._train)) for size in (batch, early))
        self._held_out = {split: _indices(records, split)[:check] for split in ("concept", "combination")}
        self._seen = self._train[torch.randperm(len(self._train), generator=torch.Generator().manual_seed(seed))][
            :check
        ]
        self._sizes = sizes or default_sizes(px)
        config = emoji_config(px, vq.config.codebook_size, self._sizes.layers)
        self.network = EmojiNetwork(config, self._sizes.text_dim)
        initialise(self.network)
        self.average = Average(self.network)
        self.optimizers = split_optimizers(self.network, self.network.body.layers.parameters(), lr=lr)
        self._device = torch.device("cpu")

    def to(self, device: str) -> None:
        """See `stages.Stage.to`."""
        self._device = torch.device(device)
        self._vq.to(device)
        self.network.to(device)
        self.average.network.to(device)

    def loss(self, step: int, share: Share) -> Measured:
        """See `stages.Stage.loss`."""
        ids, targets, pictures = self.batch(step, share)
        whole = self._nats(ids, targets, step)
        values = {
            "epoch": (step + 1) * self._batch_size / len(self._train),
            "whole": float(whole.detach()) / targets.numel(),
        }
        if not self._early_size:
            return Measured(loss=whole / targets.numel(), pictures=pictures, values=values)
        step += _EARLY_STREAM
        ids, first, _ = self._draw(step, self._early_size, share)
        first = first[:, : self.network.body.config.side]
        early = self._nats(ids, first, step)
        values["first_row"] = float(early.detach()) / first.numel()
        loss = (whole + early) / (targets.numel() + first.numel())
        return Measured(loss=loss, pictures=pictures, values=values)

    def batch(self, step: int, share: Share) -> tuple[Tensor, Tensor, int]:
        """This worker's conditions and tokens of batch number `step`, and how many pictures the whole batch has."""
        return self._draw(step, self._batch_size, share)

    def _nats(self, ids: Tensor, targets: Tensor, step: int) -> Tensor:
        logits = self.network(ids, self._disturbed(targets, step))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")

    def _disturbed(self, tokens_BN: Tensor, step: int) -> Tensor:
        """Some cells of each picture from its neighbour in the batch, at the same place."""
        generator = torch.Generator().manual_seed((self._seed << 32) + step)
        share_B1 = self._noise * torch.rand((len(tokens_BN), 1), generator=generator)
        other_BN = torch.rand(tokens_BN.shape, generator=generator) < share_B1
        return torch.where(other_BN.to(tokens_BN.device), tokens_BN.roll(1, 0), tokens_BN)

    def _draw(self, step: int, size: int, share: Share) -> tuple[Tensor, Tensor, int]:
        chosen = self._order(step, size)
        generator = torch.Generator().manual_seed((self._seed << 32) + step)
        mirrored = torch.rand(len(chosen), generator=generator) < _MIRROR
        ids = condition_ids([self._caption(index, step) for index in chosen.tolist()])
        ids[..., 0][torch.rand(ids.shape[:2], generator=generator) < _DROP_WORD] = BUCKETS
        ids[torch.rand(len(chosen), generator=generator) < _DROP_CAPTION] = BUCKETS
        targets = self._tokens.of(chosen, mirrored)
        return share.of(ids).to(self._device), share.of(targets).to(self._device), len(chosen)

    def seen(self) -> tuple[Tensor, Tensor]:
        """Conditions and tokens to measure on: held-out combinations, else pictures of the training set."""
        index = self._held_out["combination"] if len(self._held_out["combination"]) else self._seen
        records = [self._records[i] for i in index.tolist()]
        ids = condition_ids([prompt_used(f"{r.style} {r.name}", frozenset()) for r in records])
        tokens = self._tokens.of(index, torch.zeros(len(index), dtype=torch.bool))
        return ids.to(self._device), tokens.to(self._device)

    def after_step(self, step: int) -> None:
        """Nothing."""

    def extra(self) -> dict[str, Any]:
        return {"sizes": dataclasses.asdict(self._sizes), "tokenizer": self.tokenizer, "seed": self._seed}

    def restore(self, extra: dict[str, Any]) -> None:
        refuse_other_tokenizer(self.name, extra, self.tokenizer)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Negative log-likelihood in nats per token, captions by name and style: held-out splits, and seen pictures."""
        found = {f"held_out_nll_{split}": self._nll(index) for split, index in self._held_out.items() if len(index)}
        return {**found, "nll_seen": self._nll(self._seen), "nll_seen_first_row": self._nll(self._seen, rows=1)}

    def sheet(self) -> np.ndarray | None:
        """Samples of a few captions, guided, two of each."""
        return sample_pictures(self.average.network, self._vq, SHEET, per_caption=2, seed=self._seed)

    def _nll(self, index: Tensor, rows: int | None = None) -> float:
        """Nats per token of the pictures at `index`: of their first `rows`, or of all."""
        total, side = 0.0, self.network.body.config.side
        cells = side * (side if rows is None else rows)
        for some in index.split(_CHECK_BATCH):
            records = [self._records[i] for i in some.tolist()]
            ids = condition_ids([prompt_used(f"{r.style} {r.name}", frozenset()) for r in records])
            targets = self._tokens.of(some, torch.zeros(len(some), dtype=torch.bool))[:, :cells]
            ids, targets = ids.to(self._device), targets.to(self._device)
            logits = self.average.network(ids, targets)
            total += float(F.cross_entropy(logits.flatten(0, 1), targets.flatten())) * len(some)
        return total / len(index)

    def _caption(self, index: int, step: int) -> str:
        record = self._records[index]
        described = Described(name=record.name, keywords=record.keywords, style=record.style)
        rng = random.Random(f"{self._seed} {step} {index}")
        return prompt_used(caption(described, rng, self._names), frozenset(record.name.split()))

    def _order(self, step: int, size: int) -> Tensor:
        """Indices of batch `step`: whole shuffled epochs, the last short batch left out."""
        per_epoch = len(self._train) // size
        epoch, place = divmod(step, per_epoch)
        order = torch.randperm(
            len(self._train), generator=torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        )
        return self._train[order[place * size : (place + 1) * size]]


def initialise(model: EmojiNetwork) -> None:
    """Normal weights, smaller where the residual stream is written; empty places of the word tables zero."""
    depth = math.sqrt(2 * model.body.config.layers)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and "place" not in name:
            deep = name.endswith(("wo.weight", "w2.weight"))
            nn.init.normal_(parameter, std=0.02 / (depth if deep else 1) if "text" not in name else 0.3)
    nn.init.normal_(model.body.output.weight, std=0.002)
    for table in (model.text.word, model.text.gram):
        nn.init.zeros_(table.weight.data[BUCKETS])


def _indices(records: Sequence[Record], split: str) -> Tensor:
    return torch.tensor([i for i, record in enumerate(records) if record.split == split], dtype=torch.int64)

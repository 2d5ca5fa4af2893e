"""Models whose every distribution is written down: logits by (label, cell, token before); heads that follow a script.

Nothing is remembered between forwards: a table shows what a rule draws, a transformer (tiny.py) what a cache keeps.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition, Queries, Request
from mulo_ray.decoding.sampling import guide
from mulo_ray.seeding import image_seed


@dataclass
class TableCache:
    labels_B: Tensor
    guidance: float
    first_logits_BV: Tensor
    first_hidden_GBE: Tensor


class TableScale:
    """`table_LNVV`[label, cell, token before] are logits (token 0 stands before cell 0); label -1 is unconditional."""

    def __init__(self, table_LNVV: Tensor) -> None:
        self.table = table_LNVV
        self.side = int(table_LNVV.shape[1] ** 0.5)
        self.codebook_size = table_LNVV.shape[-1]
        self.fed: list[int] = []

    def _logits(self, cache_labels: Tensor, guidance: float, cells: Tensor, before: Tensor) -> Tensor:
        conditional = self.table[cache_labels, cells, before]
        unconditional = None if guidance == 1.0 else self.table[-1, cells, before]
        return guide(conditional, unconditional, guidance)

    def start(self, condition: Condition, guidance: float) -> TableCache:
        labels = condition["labels"]
        zero = torch.zeros_like(labels)
        hidden = torch.zeros(1 if guidance == 1.0 else 2, len(labels), 1)
        return TableCache(labels, guidance, self._logits(labels, guidance, zero, zero), hidden)

    def forward(self, cache: TableCache, queries: Queries, visible_BN: Tensor | None = None) -> Tensor:
        return self.forward_features(cache, queries, visible_BN)[0]

    def forward_features(
        self, cache: TableCache, queries: Queries, visible_BN: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        self.fed.append(len(queries.rows_M))
        cells = (queries.cells_M + 1).clamp(max=self.side**2 - 1)
        logits = self._logits(cache.labels_B[queries.rows_M], cache.guidance, cells, queries.tokens_M)
        return logits[: queries.answers], torch.zeros(len(cache.first_hidden_GBE), len(cells), 1)


class ScriptedHead:
    """Guesses `guesses_SN`[seed-bearing row, cell] with near certainty for the cell after each query."""

    def __init__(self, guesses_BN: Tensor, codes: int) -> None:
        self.guesses_BN, self.codes = guesses_BN, codes

    def start(self, batch: int, guidance: float, spare: int) -> Any:
        return None

    def forward(self, cache: Any, queries: Queries, hidden_GME: Tensor) -> tuple[Tensor, Tensor]:
        cells = (queries.cells_M + 1).clamp(max=self.guesses_BN.shape[1] - 1)
        logits = torch.zeros(len(cells), self.codes)
        logits[torch.arange(len(cells)), self.guesses_BN[queries.rows_M, cells]] = 9.0
        return logits, hidden_GME


def constant(p: list[float], cells: int = 16, labels: int = 1) -> TableScale:
    """The same distribution everywhere."""
    logits = torch.tensor(p).log()
    return TableScale(logits.expand(labels, cells, len(p), len(p)).contiguous())


def random_table(seed: int, cells: int = 64, codes: int = 16, labels: int = 8, spread: float = 2.0) -> TableScale:
    """Logits drawn once, another distribution behind every token."""
    generator = torch.Generator().manual_seed(seed)
    return TableScale(spread * torch.randn(labels, cells, codes, codes, generator=generator))


def table_request(batch: int, labels: int = 7, seed: int = 0, first: int = 0) -> Request:
    """Images `first`..: image i has label i mod `labels` and the seed of key "i"."""
    numbers = range(first, first + batch)
    return Request(
        condition={"labels": torch.tensor([i % labels for i in numbers])},
        seeds_B=torch.tensor([image_seed(seed, str(i), 0) for i in numbers]),
    )

"""Phase times of `mulo` and `ar` against the cost model: forwards of a phase times what a forward of that many queries
costs (docs/method.md section 2), and that against the machine's bounds.

Where a phase takes more than its forwards, the rest is overhead: schedules, sampling, bookkeeping.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from mulo_ray.bench.contender import Contender
from mulo_ray.bench.machine import Machine
from mulo_ray.decoding.interfaces import Generation, Queries, Request
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.family import load_family
from mulo_ray.models.raster import RasterScale

QUERIES = (1, 2, 4, 8, 16, 64, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardCosts:
    """Seconds of one forward of a scale by queries per image, in a batch."""

    seconds: Mapping[int, float]

    def of(self, queries: float) -> float:
        """Between measured counts, by straight lines."""
        counts = sorted(self.seconds)
        return float(np.interp(queries, counts, [self.seconds[count] for count in counts]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Seconds of a micro-batch: as measured, and by the cost model."""

    name: str
    measured: float
    model: float


class Forwards:
    """Forwards of the two scales of a pair on real captions, exact shapes."""

    def __init__(self, card: FamilyCard, guidance: float) -> None:
        self._family, self._guidance = load_family(card, "cpu"), guidance
        self._scales: dict[int, RasterScale] = {}

    def costs(self, px: int, request: Request, repeats: int = 5) -> ForwardCosts:
        """Medians of `repeats`, at a full cache: the last cells of the grid are fed."""
        scale, batch = self._scale(px), len(request.seeds_B)
        cells = scale.side**2
        cache = scale.start(request.condition, self._guidance)
        found = {}
        for count in (count for count in QUERIES if count <= cells):
            fed = torch.arange(cells - count, cells).repeat(batch)
            queries = Queries(
                rows_M=torch.arange(batch).repeat_interleave(count), cells_M=fed, tokens_M=torch.zeros_like(fed)
            )
            seconds = []
            for _ in range(repeats + 1):
                started = time.perf_counter()
                scale.forward(cache, queries)
                seconds.append(time.perf_counter() - started)
            found[count] = statistics.median(seconds[1:])
        return ForwardCosts(seconds=found)

    def bound(self, px: int, batch: int, queries: int, machine: Machine) -> float:
        """The least a forward could take here: its products at the matrix rate, or its weights and keys from memory."""
        body = self._scale(px).body
        rows = batch * (2 if self._guidance != 1 else 1)
        weights = sum(module.weight.numel() for module in body.modules() if isinstance(module, nn.Linear))
        config = body.config
        keys = 2 * config.layers * config.slots * config.dim  # per row, keys and values
        flops = 2 * rows * queries * (weights + keys)
        return machine.seconds(flops, 4 * (weights + rows * keys))

    def _scale(self, px: int) -> RasterScale:
        if px not in self._scales:
            scale = self._family.scale(px, batch_invariant=False)
            assert isinstance(scale, RasterScale), "every family runs on the common body"
            self._scales[px] = scale
        return self._scales[px]


def ar_phases(generation: Generation, target: ForwardCosts) -> list[Phase]:
    """N - 1 forwards of one query."""
    cells = generation.tokens_BHW[0].numel()
    return [Phase(name="decode", measured=_seconds(generation, "decode"), model=(cells - 1) * target.of(1))]


def mulo_phases(generation: Generation, drafter: ForwardCosts, target: ForwardCosts, drafter_cells: int) -> list[Phase]:
    """Drafting; a forward of a block per cycle; one per further level of resampling, as deep as the deepest image."""
    stats = generation.stats
    batch, cells = len(stats), generation.tokens_BHW[0].numel()
    drafts = max(image.forwards_drafter for image in stats) - 1  # without the prefill
    depth, cycles = max(image.depth for image in stats), stats[0].cycles
    redrawn = sum(image.resampled for image in stats) / batch
    return [
        Phase(
            name="draft",
            measured=_seconds(generation, "draft"),
            model=drafts * drafter.of(drafter_cells / max(drafts, 1)),
        ),
        Phase(name="verify", measured=_seconds(generation, "verify"), model=cycles * target.of(cells / cycles)),
        Phase(
            name="resample", measured=_seconds(generation, "resample"), model=depth * target.of(redrawn / max(depth, 1))
        ),
    ]


def decoded(contender: Contender, request: Request, repeats: int) -> Generation:
    """The generation whose total was the median of `repeats`."""
    runs: Sequence[Generation] = [contender.decode(request) for _ in range(repeats)]
    return sorted(runs, key=lambda one: sum(one.stats[0].seconds.values()))[repeats // 2]


def _seconds(generation: Generation, phase: str) -> float:
    return sum(image.seconds.get(phase, 0.0) for image in generation.stats)

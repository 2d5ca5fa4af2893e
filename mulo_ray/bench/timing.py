"""Seconds per image of settings against plain decoding, in turn. Knows no quality.

On a shared machine only ratios of runs side by side mean anything: each round decodes one micro-batch by the yardstick
and by every setting of a group, and keeps both times, so that a round measured later is a pair of its own.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mulo_ray.bench.contender import Contender
from mulo_ray.bench.kept import Kept, TimedCell
from mulo_ray.decoding.interfaces import Generation, Request
from mulo_ray.types import Prompt

LEAST_ROUNDS = 6
"""Pairs behind a median, however few micro-batches the captions make."""

Say = Callable[[str], None]


def rounds_of(captions: int, batch: int) -> int:
    """How many rounds a batch size takes: all captions once, and again until there are LEAST_ROUNDS."""
    chunks = captions // batch
    return chunks * -(-LEAST_ROUNDS // chunks)


def time_group(
    yardstick: Contender, group: Sequence[Contender], prompts: Sequence[Prompt], batch: int, kept: Kept, say: Say
) -> None:
    """Measure what is missing of a group's cells at one batch size; each round is kept when it is done."""
    cells = {one.setting.name: kept.cell(one.setting, batch) for one in group}
    total = rounds_of(len(prompts), batch)
    for number in range(total):
        missing = [one for one in group if number not in cells[one.setting.name].rounds]
        if not missing:
            continue
        say(f"batch {batch}: round {number + 1} of {total}, {len(missing)} settings")
        start = number % (len(prompts) // batch) * batch
        request = yardstick.request(prompts[start : start + batch])
        base, generation = _timed(yardstick, request)
        for one in missing:
            own = base
            if one is not yardstick:
                own, generation = _timed(one, request)
            cell = cells[one.setting.name]
            cell.rounds[number] = {"seconds": own / batch, "yardstick": base / batch, "stats": mean_stats(generation)}
            _add_rejected(cell, generation)
            kept.put_cell(one.setting, batch, cell)


def mean_stats(generation: Generation) -> dict[str, Any]:
    """Counts and seconds per phase, means over the images of a micro-batch."""
    images = [image.as_dict() for image in generation.stats]
    counts = {name: _mean([image[name] for image in images]) for name in images[0] if name != "seconds"}
    return counts | {"seconds": {name: _mean([i["seconds"][name] for i in images]) for name in images[0]["seconds"]}}


def _timed(contender: Contender, request: Request) -> tuple[float, Generation]:
    started = time.perf_counter()
    generation = contender.decode(request)
    return time.perf_counter() - started, generation


def _add_rejected(cell: TimedCell, generation: Generation) -> None:
    if generation.rejected_BHW is None:
        return
    counts_HW = generation.rejected_BHW.sum(0).cpu().numpy()
    cell.rejected = counts_HW if cell.rejected is None else cell.rejected + counts_HW
    cell.images += len(generation.rejected_BHW)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))

"""Plain decoding on the shape that the official LlamaGen sampler was measured on, so that `ar` is no weak yardstick.

Width 320, 7 layers, 16,384 codes, 256 cells, no guidance, random weights, float32. The official sampler makes 46
tokens per second at batch 1 and 131 at batch 8 there, on two threads of a quiet two-core machine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch

from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.interfaces import Condition, Request, Scale, generate
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.transformer import Transformer, TransformerConfig, column_major

SHAPE = TransformerConfig(dim=320, layers=7, heads=5, vocab=16_384, side=16, prefix=1)
OFFICIAL = {1: 46.0, 8: 131.0}
"""Tokens per second of the official sampler, by batch size."""
THREADS = 2


def official_shape(config: TransformerConfig = SHAPE) -> Scale:
    """A scale of that shape with seeded random weights and exact shapes."""
    torch.manual_seed(0)
    body = Transformer(config).requires_grad_(False).eval()
    column_major(body)
    prefix = torch.randn(8, config.prefix, config.dim)

    def condition(labels: Condition) -> torch.Tensor:
        return prefix[labels["labels"]]

    return cast(Scale, RasterScale(body, condition, lambda: prefix[:1], batch_invariant=False))


def tokens_per_second(scale: Scale, batch: int, threads: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """One micro-batch of whole images, prefill and sampling included, by any clock."""
    with _threads(threads):
        started = clock()
        generate(AutoregressiveTarget(scale, Sampling()), None, _request(batch))
        return batch * scale.side**2 / (clock() - started)


def faster_threads(scale: Scale, batch: int, forwards: int = 12) -> int:
    """1 or THREADS, whichever takes less for some forwards: on a busy machine two threads wait for each other."""
    seconds = {}
    for threads in (1, THREADS):
        with _threads(threads):
            request = _request(batch)
            canvas = Canvas(scale, request, Sampling())
            started = time.perf_counter()
            for cell in range(forwards):
                cells = torch.full((batch,), cell)
                canvas.draw(torch.arange(batch), cells, canvas.predict(torch.arange(batch), cells))
            seconds[threads] = time.perf_counter() - started
    return min(seconds, key=lambda threads: seconds[threads])


def _request(batch: int) -> Request:
    numbers = torch.arange(batch)
    return Request(condition={"labels": numbers % 8}, seeds_B=numbers)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

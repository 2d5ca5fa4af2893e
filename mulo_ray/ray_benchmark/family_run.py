"""The embedded family through whole stages, and the same decoding in a bare loop beside them."""

import tempfile
import time
from typing import Any

from mulo_ray.config import GroupName, JobConfig, ModelOptions, RunOptions
from mulo_ray.engine import family_engine
from mulo_ray.job import PutImage, cut_blocks
from mulo_ray.prompts import embedded_captions
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed
from mulo_ray.storage import Store, plan
from mulo_ray.types import Report
from mulo_ray.work import make_images
from mulo_ray.workers.session import session
from mulo_ray.workers.threads import limit_threads


def family_config(
    group: GroupName, groups: int | None, batch: int, sides: tuple[int, int], threads: int = 1
) -> JobConfig:
    """A job of the embedded family on CPUs."""
    run = RunOptions(device="cpu", batch_size=batch, group=group, groups=groups, threads=threads)
    return JobConfig(model=ModelOptions(drafter_px=sides[0], target_px=sides[1]), run=run)


def through_ray(config: JobConfig, micro_batches: int) -> dict[str, Any]:
    """`report.phases` of a run with a real store, the first micro-batches of each group as start-up left out by the
    middle rate."""
    engine = family_engine(config.model)
    config = resolve(config, engine.card)
    pairs = [(prompt, 0) for prompt in embedded_captions(micro_batches * config.run.batch_size)]
    blocks = cut_blocks(config, pairs, plan(pairs, {}))
    report = Report()
    with tempfile.TemporaryDirectory() as folder, session():
        made = sum(len(rows) for rows in make_images(config, engine, PutImage(Store(folder)), blocks, report, print))
    assert made == len(pairs), f"{made} of {len(pairs)} images came back"
    return report.phases


def bare_loop(config: JobConfig, micro_batches: int) -> float:
    """Images per second of the same micro-batches in one process without Ray, storage or a second process."""
    from mulo_ray.decoding.interfaces import generate

    limit_threads("cpu", config.run.threads)
    engine = family_engine(config.model)
    config = resolve(config, engine.card)
    roles = engine.roles(config)
    assert roles.drafter is not None, "a pair is measured"
    target, drafter = roles.target("cpu"), roles.drafter("cpu")
    limit_threads("cpu", config.run.threads)
    captions, size = embedded_captions(micro_batches * config.run.batch_size), config.run.batch_size
    seconds = []
    for start in range(0, len(captions), size):
        batch = captions[start : start + size]
        began = time.perf_counter()
        texts = [target.prompt_used(prompt.text) for prompt in batch]
        seeds = [image_seed(config.sampling.seed, prompt.key, 0) for prompt in batch]
        request = target.request(texts, seeds)
        generation = generate(target.decoder, drafter.decoder, request)
        target.render(generation.tokens_BHW, [prompt.text for prompt in batch])
        seconds.append(time.perf_counter() - began)
    middle = seconds[1:]  # the first one warms up
    return size * len(middle) / sum(middle)

"""Decoding speed in this process, settings against each other in turn. No Ray, no output folder, no quality.

On a shared machine only ratios of interleaved runs mean anything, so each repetition runs every setting once and the
medians are taken over repetitions.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from mulo_ray.config import DecoderOptions, JobConfig
from mulo_ray.engine import family_engine
from mulo_ray.prompts import embedded_captions
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed

Line = dict[str, Any]
"""{name, value, unit, goal, pass, command}: one figure, as `make bench` writes them."""


def decoder_runs(config: JobConfig, batch: int) -> Callable[[], Sequence[Any]]:
    """A callable that decodes one micro-batch of the package's captions and returns its stats."""
    from mulo_ray.decoding.interfaces import generate
    from mulo_ray.workers.threads import limit_threads

    limit_threads("cpu")
    engine = family_engine(config.model)
    resolved = resolve(config, engine.card)
    roles = engine.roles(resolved)
    target = roles.target("cpu")
    drafter = None if roles.drafter is None else roles.drafter("cpu")
    prompts = embedded_captions(batch)
    texts = [target.prompt_used(prompt.text) for prompt in prompts]
    request = target.request(texts, [image_seed(config.sampling.seed, prompt.key, 0) for prompt in prompts])
    return lambda: generate(target.decoder, None if drafter is None else drafter.decoder, request).stats


def invariance_and_speed(batches: Sequence[int], repeats: int, command: str) -> list[Line]:
    """What batch invariance costs, and what mulo gains over plain decoding, per batch size; medians over `repeats`."""
    lines = []
    for batch in batches:
        runs = {}
        for decoder in ("ar", "mulo"):
            for invariant in (True, False):
                config = JobConfig(decoding=DecoderOptions(decoder=decoder))
                config = dataclasses.replace(config, run=dataclasses.replace(config.run, batch_invariant=invariant))
                runs[decoder, invariant] = decoder_runs(config, batch)
        seconds: dict[tuple[str, bool], list[float]] = {key: [] for key in runs}
        for _ in range(repeats):
            for key, run in runs.items():
                started = time.perf_counter()
                run()
                seconds[key].append((time.perf_counter() - started) / batch)
        for (decoder, invariant), values in seconds.items():
            name = f"{decoder}, batch {batch}, {'batch-invariant' if invariant else 'exact shapes'}"
            lines.append(_line(name, statistics.median(values), "s/image", command))
        for decoder in ("ar", "mulo"):
            lines.append(
                _ratio(
                    f"cost of batch invariance, {decoder}, batch {batch}",
                    seconds[decoder, True],
                    seconds[decoder, False],
                    command,
                )
            )
        lines.append(
            _ratio(
                f"speed-up of mulo over ar (exact shapes), batch {batch}",
                seconds["ar", False],
                seconds["mulo", False],
                command,
            )
        )
        lines.append(
            _ratio(
                f"speed-up of mulo over ar (batch-invariant), batch {batch}",
                seconds["ar", True],
                seconds["mulo", True],
                command,
            )
        )
    return lines


def _ratio(name: str, above: Sequence[float], below: Sequence[float], command: str) -> Line:
    """The median of the ratios, pair by pair."""
    return _line(name, statistics.median(a / b for a, b in zip(above, below, strict=True)), "x", command)


def _line(name: str, value: float, unit: str, command: str) -> Line:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": None, "pass": True, "command": command}

"""The figures of `make bench`: decoding speed in this process, the cost model, and the machine's own bounds.

No Ray, no output folder, no quality. On a shared machine only ratios of interleaved runs mean anything, so each
repetition runs every setting once and the medians are taken over repetitions.
"""

import statistics
import time
from collections.abc import Iterator, Sequence

from mulo_ray.bench.contender import Contender
from mulo_ray.bench.lines import Line as Line
from mulo_ray.bench.lines import line as line
from mulo_ray.bench.lines import line_text as line_text
from mulo_ray.bench.settings import Setting, parse
from mulo_ray.config import JobConfig, ModelOptions
from mulo_ray.engine import Engine, family_engine
from mulo_ray.prompts import embedded_captions

_SHAPES = {True: "batch-invariant", False: "exact shapes"}
_GOAL_FACTOR = 2  # plain decoding against the official sampler


def bench_lines(batches: Sequence[int], repeats: int, command: str) -> Iterator[Line]:
    """Every figure, as soon as it is measured."""
    engine = family_engine(ModelOptions())
    settings = {
        (decoder, invariant): parse(f"{decoder} invariant={'yes' if invariant else 'no'}", JobConfig(), engine.card)
        for decoder in ("ar", "mulo")
        for invariant in (True, False)
    }
    contenders = {key: Contender(setting, engine) for key, setting in settings.items()}
    for batch in batches:
        yield from invariance_and_speed(contenders, batch, repeats, command)
    yield from cost_model(engine, settings["mulo", False], contenders, batches, repeats, command)
    yield from official_shape_speed(repeats, command)


def invariance_and_speed(
    contenders: dict[tuple[str, bool], Contender], batch: int, repeats: int, command: str
) -> Iterator[Line]:
    """What batch invariance costs, and what mulo gains over plain decoding; medians over `repeats`."""
    requests = {key: one.request(embedded_captions(batch)) for key, one in contenders.items()}
    seconds: dict[tuple[str, bool], list[float]] = {key: [] for key in contenders}
    for _ in range(repeats):
        for key, one in contenders.items():
            started = time.perf_counter()
            one.decode(requests[key])
            seconds[key].append((time.perf_counter() - started) / batch)
    for (decoder, invariant), values in seconds.items():
        name = f"{decoder}, batch {batch}, {_SHAPES[invariant]}"
        yield line(name, statistics.median(values), "s/image", command)
    for decoder in ("ar", "mulo"):
        name = f"cost of batch invariance, {decoder}, batch {batch}"
        yield line(name, _ratio(seconds[decoder, True], seconds[decoder, False]), "x", command)
    for invariant, shapes in reversed(_SHAPES.items()):
        name = f"speed-up of mulo over ar ({shapes}), batch {batch}"
        yield line(name, _ratio(seconds["ar", invariant], seconds["mulo", invariant]), "x", command)


def cost_model(
    engine: Engine,
    setting: Setting,
    contenders: dict[tuple[str, bool], Contender],
    batches: Sequence[int],
    repeats: int,
    command: str,
) -> Iterator[Line]:
    """The machine's bounds, forwards against them, and phases against the forwards that they are made of."""
    from mulo_ray.bench.machine import measure_machine
    from mulo_ray.bench.phases import Forwards, ar_phases, decoded, mulo_phases

    machine = measure_machine()
    yield line("machine: matrix products, float32, one thread", machine.flops / 1e9, "GFLOP/s", command)
    yield line("machine: memory read by a matrix-vector product", machine.read_bytes / 1e9, "GB/s", command)
    yield line("machine: memory copied, read and written", machine.copy_bytes / 1e9, "GB/s", command)
    model, guidance = setting.config.model, setting.config.sampling.guidance
    assert model.drafter_px is not None, "mulo has a drafter"
    assert model.target_px is not None, "the setting is resolved"
    assert guidance is not None, "the setting is resolved"
    forwards = Forwards(engine.card, guidance)
    for batch in batches:
        plain, mulo = contenders["ar", False], contenders["mulo", False]
        request = plain.request(embedded_captions(batch))
        drafter, target = (forwards.costs(px, request) for px in (model.drafter_px, model.target_px))
        for queries, seconds in target.seconds.items():
            name = f"one forward, {queries} {'query' if queries == 1 else 'queries'} per image, batch {batch}"
            yield line(name, seconds * 1e3, "ms", command)
            bound = forwards.bound(model.target_px, batch, queries, machine)
            yield line(f"{name}, over the machine's bound", seconds / bound, "x", command)
        cells = engine.card.scales[model.drafter_px] ** 2
        phases = {
            "ar": ar_phases(decoded(plain, request, repeats), target),
            "mulo": mulo_phases(decoded(mulo, request, repeats), drafter, target, cells),
        }
        for decoder, parts in phases.items():
            for phase in parts:
                name = f"{decoder}, batch {batch}: {phase.name}"
                yield line(name, phase.measured / batch, "s/image", command)
                if phase.model:
                    yield line(f"{name}, over the cost model", phase.measured / phase.model, "x", command)


def official_shape_speed(repeats: int, command: str) -> Iterator[Line]:
    """Tokens per second of `ar` beside twice what the official sampler makes on that shape."""
    from mulo_ray.bench.plain_shape import OFFICIAL, faster_threads, official_shape, tokens_per_second

    scale = official_shape()
    for batch, official in OFFICIAL.items():
        threads = faster_threads(scale, batch)
        speeds = [tokens_per_second(scale, batch, threads) for _ in range(repeats)]
        name = "ar on width 320, 7 layers, 16,384 codes, 256 cells"
        goal = _GOAL_FACTOR * official
        yield line(
            f"{name}, the faster of 1 and 2 threads: batch {batch}",
            statistics.median(speeds),
            "tokens/s",
            command,
            at_least=goal,
        )
        speeds = [tokens_per_second(scale, batch, 1, time.process_time) for _ in range(repeats)]
        yield line(
            f"{name}, 1 thread, per second of processor time (as if nothing else ran): batch {batch}",
            statistics.median(speeds),
            "tokens/s",
            command,
        )


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the ratios, pair by pair."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))

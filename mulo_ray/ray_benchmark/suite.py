"""The figures of `make bench-ray`: one group, many groups, many prompts, then the embedded family."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mulo_ray.benchmark import Line, line
from mulo_ray.config import GroupName
from mulo_ray.ray_benchmark.driver_memory import drive
from mulo_ray.ray_benchmark.family_run import bare_loop, family_config, through_ray
from mulo_ray.ray_benchmark.stub_run import StubRun, measure, measure_groups
from mulo_ray.ray_benchmark.trials import in_fresh_process


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is run. The goals are stated for the defaults; smaller runs show that everything works."""

    repeats: int = 5
    """Runs of every setting of the family, in turn, and of the short stub runs."""
    groups: int = 16
    """Groups of stub roles on logical GPUs."""
    micro_batches: int = 500
    """Micro-batches through them."""
    prompts: int = 100_000
    """Prompts whose driver memory is compared with a tenth as many."""
    prompts_batch: int = 16
    """Images per micro-batch there."""
    family_micro_batches: int = 24
    """Micro-batches of every run of the embedded family."""
    family_sides: tuple[int, int] = (32, 64)
    """Drafter and target in pixels."""


Part = Callable[[Sizes, str], Iterator[Line]]


def pipelining(sizes: Sizes, command: str) -> Iterator[Line]:
    """Twenty micro-batches of stub roles, 50:50 ms in a pair and 50:150 ms with three targets."""
    pair = StubRun(drafter_s=0.05, target_s=0.05, micro_batches=20)
    serial = StubRun(drafter_s=0.05, target_s=0.05, micro_batches=20, in_flight=1)
    three = StubRun(drafter_s=0.05, target_s=0.15, micro_batches=20, group="1:3")
    told = in_fresh_process(measure_groups, [pair, serial, three] * sizes.repeats)
    pairs, serials, threes = (told[n::3] for n in range(3))
    name = "20 micro-batches of 50:50 ms in a 1:1 group, time over the ideal 21 x 50 ms"
    yield line(name, _median(pairs, "seconds") / 1.05, "x", command, at_most=1.1)
    same = len({one["sha256"] for one in pairs + serials}) == 1
    yield line("... and the same pictures with one micro-batch in flight (1: yes)", same, "", command, at_least=1)
    yield line("... time with one in flight over the ideal 40 x 50 ms", _median(serials, "seconds") / 2.0, "x", command)
    name = "20 micro-batches of 50:150 ms in a 1:3 group, time over the ideal 20 x 50 + 150 ms"
    yield line(name, _median(threes, "seconds") / 1.15, "x", command, at_most=1.15)


def many_groups(sizes: Sizes, command: str) -> Iterator[Line]:
    """Stub groups of 500 ms a phase on logical GPUs against one of them, through Ray Data and the writer."""
    many = StubRun(drafter_s=0.5, target_s=0.5, micro_batches=sizes.micro_batches, groups=sizes.groups)
    one = StubRun(drafter_s=0.5, target_s=0.5, micro_batches=max(20, sizes.micro_batches // sizes.groups))
    [alone] = in_fresh_process(measure, [one])
    [together] = in_fresh_process(measure, [many])
    yield line("one stub group of 500 ms a phase, micro-batches of 4", alone["images_per_s"], "images/s", command)
    name = f"{sizes.groups} such groups over {sizes.groups} times one, middle 80 % of completions"
    share = together["images_per_s"] / (sizes.groups * alone["images_per_s"])
    yield line(name, share, "x", command, at_least=0.9)


def many_prompts(sizes: Sizes, command: str) -> Iterator[Line]:
    """Memory of the driver and of the object store over a long run into a null store."""
    small, large = sizes.prompts // 10, sizes.prompts
    few = in_fresh_process(drive, small, sizes.prompts_batch, 2)
    many = in_fresh_process(drive, large, sizes.prompts_batch, 2)
    per_prompt = (many["pss_mib"] - few["pss_mib"]) * 1024 / (large - small)
    name = f"driver memory (PSS) per prompt, from {small:,} to {large:,} prompts"
    yield line(name, per_prompt, "KB/prompt", command, at_most=1.0)
    million = (many["pss_mib"] + per_prompt * (1_000_000 - large) / 1024) / 1024
    yield line("... extrapolated to a million prompts", million, "GiB", command)
    yield line("... spilled by the object store", many["spilled_mib"], "MiB", command, at_most=0)
    yield line(f"... time for {large:,} prompts", many["seconds"] / 60, "min", command, at_most=15)


def family(sizes: Sizes, command: str) -> Iterator[Line]:
    """The embedded family on two cores: a pair against its slower role, shape against shape, Ray against none."""
    batch, sides, count = 8, sizes.family_sides, sizes.family_micro_batches
    settings: dict[str, tuple[GroupName, int | None, int]] = {
        "1:1": ("1:1", 1, 1),
        "two shared groups": ("shared", 2, 1),
        "one process of two threads": ("shared", 1, 2),
        "auto": ("auto", None, 1),
        "one shared group": ("shared", 1, 1),
    }
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in settings}
    bare: list[float] = []
    for _ in range(sizes.repeats):
        for name, (group, groups, threads) in settings.items():
            config = family_config(group, groups, batch, sides, threads)
            told[name].append(in_fresh_process(through_ray, config, count))
        bare.append(in_fresh_process(bare_loop, family_config("shared", 1, batch, sides), max(4, count // 2)))
    shares = [
        one["images_per_s"] / batch * max(one["drafter_s"], one["target_s"] + one["render_s"]) for one in told["1:1"]
    ]
    name = "1:1 group of the embedded family, rate over that of its slower role"
    yield line(name, statistics.median(shares), "x", command, at_least=0.9)
    rates = {name: [one["images_per_s"] for one in ones] for name, ones in told.items()}
    for name in list(settings)[:4]:
        yield line(f"embedded family, {name}", statistics.median(rates[name]), "images/s", command)
    fixed = [max(rates[name][n] for name in list(settings)[:3]) for n in range(sizes.repeats)]
    ratios = [chosen / best for chosen, best in zip(rates["auto"], fixed, strict=True)]
    yield line("--group auto over the best of them", statistics.median(ratios), "x", command, at_least=0.9)
    ratios = [ray / loop for ray, loop in zip(rates["one shared group"], bare, strict=True)]
    name = "one group with Ray, writer and store over the bare loop"
    yield line(name, statistics.median(ratios), "x", command, at_least=0.9)


PARTS: dict[str, Part] = {
    "pipelining": pipelining,
    "groups": many_groups,
    "prompts": many_prompts,
    "family": family,
}


def _median(told: list[dict[str, Any]], name: str) -> float:
    return statistics.median([float(one[name]) for one in told])

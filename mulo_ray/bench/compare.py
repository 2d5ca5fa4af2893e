"""Methods x settings x batch sizes on the same captions and seeds: times them, judges their pictures, writes the page.

`jobs/compare.py` runs this. Every round and every part of pictures is kept, so the same command goes on.
"""

import functools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mulo_ray.bench.contender import Contender
from mulo_ray.bench.kept import Kept
from mulo_ray.bench.options import CompareOptions, split
from mulo_ray.bench.settings import Setting, Skipped, choose, headlines
from mulo_ray.engine import Engine, family_engine
from mulo_ray.errors import UsageError
from mulo_ray.evaluation.methods.page import write_methods
from mulo_ray.evaluation.methods.table import methods_text
from mulo_ray.prompts import embedded_captions, read_prompts
from mulo_ray.storage import Store
from mulo_ray.types import Prompt

GROUP = 6
"""Settings that are timed beside one run of the yardstick, and loaded together."""
JUDGED_FAMILY = "emoji"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a command asks for, checked. `pictures` is how many are judged of a setting, by its name."""

    options: CompareOptions
    engine: Engine
    settings: Sequence[Setting]
    skipped: Sequence[Skipped]
    prompts: Sequence[Prompt]
    headlines: frozenset[str]
    pictures: dict[str, int]

    @property
    def yardstick(self) -> Setting:
        """Plain decoding at its fastest."""
        return self.settings[0]


def compare(options: CompareOptions, command: str) -> str:
    """Measure what is missing, write compare.json and compare.html; the table, and where the page is.

    Raises UsageError or CheckpointError, in seconds, for what cannot be compared.
    """
    import torch

    plan = make_plan(options)
    kept = Kept(Store(options.output))
    fixed = options.fixed(plan.yardstick.config, plan.engine.card.weights_fingerprint, torch.__version__)
    kept.claim(fixed)

    from mulo_ray.bench.results import collect

    _time(plan, kept)
    _judge(plan, kept)
    compared = collect(plan, kept, fixed, command)
    return f"{methods_text(compared)}\nsee {write_methods(kept.store, compared)}"


def make_plan(options: CompareOptions) -> Plan:
    """Check everything that can be checked without decoding."""
    engine = family_engine(options.model)
    settings, skipped = choose(
        options.base(), engine.card, split(options.decoders), split(options.settings), sweep=options.sweep
    )
    prompts = _prompts(options)
    for setting in settings:
        engine.check(setting.config)
    judging = options.quality_n > 0 and engine.card.name == JUDGED_FAMILY
    named = [settings[0].name, *split(options.headlines)] if options.headlines else []  # parity needs the yardstick's
    chosen = headlines(settings, named)
    judged_long = {one.for_pictures() for one in settings if one.name in chosen}
    pictures = {
        one.name: options.headline_n if one.for_pictures() in judged_long else options.quality_n for one in settings
    }
    if judging:
        from mulo_ray.models.lite0 import load_network

        load_network()  # UsageError without the extra `eval`
    return Plan(
        options=options,
        engine=engine,
        settings=settings,
        skipped=skipped,
        prompts=prompts,
        headlines=frozenset(chosen),
        pictures=pictures if judging else {},
    )


def _prompts(options: CompareOptions) -> list[Prompt]:
    if options.captions_file is None:
        prompts = embedded_captions(options.limit)
    else:
        prompts = read_prompts(options.captions_file, limit=options.limit)
    prompts = [prompt for prompt in prompts if prompt.error is None]
    if len(prompts) < options.limit:
        raise UsageError(
            f"--limit {options.limit} captions are to be timed, and there are {len(prompts)}: lower the limit, or give "
            "a larger --captions-file"
        )
    return prompts


def _time(plan: Plan, kept: Kept) -> None:
    from mulo_ray.bench.timing import time_group

    build = _builder(plan)
    yardstick = build(plan.yardstick)
    for group in _groups(plan.settings):
        contenders = [yardstick if one == plan.yardstick else build(one) for one in group]
        for batch in plan.options.batches:
            time_group(yardstick, contenders, plan.prompts, batch, kept, _say)


def _judge(plan: Plan, kept: Kept) -> None:
    if not plan.pictures:
        return
    from mulo_ray.bench.quality import Likelihood, judge_setting
    from mulo_ray.evaluation.emoji.kit import load_kit
    from mulo_ray.evaluation.emoji.prompts import read_eval_prompts

    kit = load_kit()
    likelihood = Likelihood(plan.yardstick.config, plan.engine.card, plan.options.device)
    for setting in plan.settings:
        captions = read_eval_prompts(plan.pictures[setting.name])
        judge_setting(setting.for_pictures(), _builder(plan), kept, kit, likelihood, captions, _say)


def _builder(plan: Plan) -> "functools.partial[Contender]":
    return functools.partial(Contender, engine=plan.engine, device=plan.options.device)


def _groups(settings: Sequence[Setting]) -> Iterator[Sequence[Setting]]:
    yield from (settings[start : start + GROUP] for start in range(0, len(settings), GROUP))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

"""From the kept files of a comparison to its rows: medians of pairs, quality, distances from plain decoding."""

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mulo_ray.bench.kept import SHEET, Kept
from mulo_ray.bench.quality import LEAST_FOR_FD, Judged, judged, parity
from mulo_ray.bench.settings import Setting
from mulo_ray.evaluation.emoji.bootstrap import Bounds
from mulo_ray.evaluation.emoji.kit import Kit, load_kit
from mulo_ray.evaluation.emoji.prompts import read_eval_prompts
from mulo_ray.evaluation.methods.cells import Bound, Method, MethodsCompared, Row

if TYPE_CHECKING:
    from mulo_ray.bench.compare import Plan

_DRAFTLESS = frozenset({"ar", "zipar"})


def collect(plan: "Plan", kept: Kept, fixed: Mapping[str, Any], command: str) -> MethodsCompared:
    """Everything the page shows of what was measured."""
    kit = load_kit() if plan.pictures else None
    pictures = {one.name: judged(kept, one.for_pictures(), n) for one, n in _counts(plan)}
    batches = plan.options.batches
    return MethodsCompared(
        command=command,
        fixed=fixed,
        rows=[row(kept, one, batch, kit, pictures.get(one.name)) for one in plan.settings for batch in batches],
        methods=[_method(plan, kept, one, kit, pictures) for one in plan.settings],
        skipped=[(one.name, one.reason) for one in plan.skipped],
        rounds={batch: len(kept.cell(plan.yardstick, batch).rounds) for batch in batches},
        captions=[one.text for one in read_eval_prompts(SHEET)] if plan.pictures else [],
        quality_note=_note(plan),
    )


def row(kept: Kept, setting: Setting, batch: int, kit: Kit | None, pictures: Judged | None) -> Row:
    """A setting at a batch size."""
    rounds = list(kept.cell(setting, batch).rounds.values())
    seconds = statistics.median(one["seconds"] for one in rounds)
    config = setting.config
    assert config.model.target_px is not None, "the config is resolved"

    def mean(name: str, drafts_only: bool = False) -> float | None:
        if drafts_only and setting.decoder in _DRAFTLESS:
            return None
        return float(np.mean([one["stats"][name] for one in rounds]))

    return Row(
        decoder=setting.decoder,
        setting=setting.label,
        drafter_px=config.model.drafter_px,
        target_px=config.model.target_px,
        batch=batch,
        seconds_per_image=seconds,
        images_per_s=1 / seconds,
        speedup_vs_ar=statistics.median(one["yardstick"] / one["seconds"] for one in rounds),
        forwards_target=mean("forwards_target") or 0.0,
        forwards_drafter=mean("forwards_drafter") or 0.0,
        query_positions=mean("query_positions") or 0.0,
        accepted=mean("accepted", True),
        resampled=mean("resampled", True),
        depth=mean("depth", True),
        nll=None if pictures is None else float(pictures.nll.mean()),
        fd=None if pictures is None or kit is None or len(pictures) < LEAST_FOR_FD else _distance(kit, pictures),
        judge_top5=None if pictures is None else float((pictures.ranks < 5).mean()),
        n=0 if pictures is None else len(pictures),
    )


def _method(
    plan: "Plan", kept: Kept, setting: Setting, kit: Kit | None, pictures: Mapping[str, Judged | None]
) -> Method:
    cells = {batch: kept.cell(setting, batch) for batch in plan.options.batches}
    largest = cells[max(cells)]
    ours, plain = pictures.get(setting.name), pictures.get(plan.yardstick.name)
    against = None
    if kit is not None and ours is not None and plain is not None and setting.decoder != plan.yardstick.decoder:
        against = parity(kit, ours, plain)
    return Method(
        decoder=setting.decoder,
        setting=setting.label,
        drafter_px=setting.config.model.drafter_px,
        headline=setting.name in plan.headlines,
        fd_ratio=None if against is None or against.fd is None else _bound(against.fd),
        top5_difference=None if against is None else _bound(against.top5),
        same_tokens=None if against is None else against.same_tokens,
        compared=0 if against is None else against.n,
        rejected_HW=None if largest.rejected is None else largest.rejected / largest.images,
        phases={batch: _phases(list(cell.rounds.values())) for batch, cell in cells.items()},
        sheet=kept.sheet(setting.for_pictures()) if plan.pictures else (),
    )


def _phases(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Medians of seconds per image."""
    names = rounds[0]["stats"]["seconds"]
    return {name: statistics.median(one["stats"]["seconds"][name] for one in rounds) for name in names}


def _distance(kit: Kit, pictures: Judged) -> float:
    return kit.axes_distance(pictures.axes)


def _bound(bounds: Bounds) -> Bound:
    return Bound(estimate=bounds.estimate, lower=bounds.lower, upper=bounds.upper)


def _counts(plan: "Plan") -> list[tuple[Setting, int]]:
    return [(one, plan.pictures[one.name]) for one in plan.settings if one.name in plan.pictures]


def _note(plan: "Plan") -> str:
    if not plan.pictures:
        return "quality: not measured (the judge knows the embedded family's captions; --quality-n 0 leaves it out)"
    sizes = " or ".join(f"{n:,}" for n in sorted(set(plan.pictures.values())))
    return (
        f"quality: n = {sizes} pictures of evaluation captions per setting, batch-invariant; nll is the target's, nats "
        f"per token under its guided distribution at temperature 1; fd is FD-EffLite0 (not FID) on 64 axes, from "
        f"{LEAST_FOR_FD} pictures on"
    )

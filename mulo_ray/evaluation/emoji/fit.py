"""Makes the kit from a picture set: features in passes, the judge, and what both say of real pictures.

The figures that a family is measured against come from here, so they are stored with the tokenizer they hold for.
"""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mulo_ray.evaluation.emoji.features import Features, features
from mulo_ray.evaluation.emoji.fitting import FitOptions, fit_judge
from mulo_ray.evaluation.emoji.frechet import moments, principal_axes
from mulo_ray.evaluation.emoji.kit import AXES, Kit
from mulo_ray.evaluation.emoji.passes import FeaturePasses
from mulo_ray.evaluation.emoji.prompts import EvalPrompt
from mulo_ray.evaluation.emoji.real import numbers_of
from mulo_ray.evaluation.emoji.scoring import Rates, rates_by_split
from mulo_ray.models.vq import VQ
from mulo_ray.training.pictures import Pictures, Record
from mulo_ray.training.tokens import fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class KitOptions:
    """`views` random views of each picture are trained on; one more, not trained on, is measured."""

    views: int = 1
    head: FitOptions = field(default_factory=FitOptions)


def fit_kit(
    pictures: Pictures,
    prompts: Sequence[EvalPrompt],
    vq: VQ,
    cache: Path,
    options: KitOptions | None = None,
    looked_at: Features = features,
) -> Kit:
    """The kit of `pictures`, its figures on the pictures behind `prompts`, before and after the tokenizer `vq`.

    Features are kept in `cache`, in a folder per picture set, and made once.
    """
    options = options or KitOptions()
    keys = "\n".join(record.key for record in pictures.records)
    passes = FeaturePasses(pictures, looked_at, cache / f"{zlib.crc32(keys.encode()):08x}")
    names = [record.name for record in pictures.records]
    plain = passes.plain()
    shown = [plain, *(passes.views(number) for number in range(options.views))]
    judge = fit_judge(np.concatenate(shown), names * len(shown), options.head)
    real = moments(plain)
    kit = Kit(real=real, axes=principal_axes(real, min(AXES, plain.shape[1])), judge=judge, figures={})
    behind = numbers_of(pictures.records, [prompt.picture for prompt in prompts])
    own = [prompt.name for prompt in prompts]
    unseen = passes.views(options.views, behind)
    decoded = passes.round_trip(vq, fingerprint(vq), behind)
    ranks = judge.ranks(decoded, own)
    figures: dict[str, Any] = {
        "network": "efficientnet-lite0",
        "pictures": len(names),
        "fit": asdict(options),
        "real": _as_dicts(rates_by_split(judge.ranks(plain[behind], own), prompts)),
        "unseen_view": _as_dicts(rates_by_split(judge.ranks(unseen, own), prompts)),
        "style_left_out": style_left_out(shown, pictures.records, options.head),
        "fd_real": [kit.distance(plain[behind]), kit.full_distance(plain[behind])],
        "fd_round_trip": [kit.distance(decoded), kit.full_distance(decoded)],
        "round_trip": _as_dicts(rates_by_split(ranks, prompts)),
        "round_trip_tokenizer": fingerprint(vq),
        "round_trip_ranks": {prompt.key: int(rank) for prompt, rank in zip(prompts, ranks, strict=True)},
    }
    return Kit(real=real, axes=kit.axes, judge=judge, figures=figures)


def style_left_out(
    shown: Sequence[np.ndarray], records: Sequence[Record], head: FitOptions
) -> dict[str, dict[str, float]]:
    """For each style, how a judge that never saw it names its pictures; concepts that other styles have, too."""
    names = np.array([record.name for record in records])
    styles = np.array([record.style for record in records])
    found = {}
    for style in sorted(set(styles.tolist())):
        others = styles != style
        judge = fit_judge(np.concatenate([some[others] for some in shown]), names[others].tolist() * len(shown), head)
        asked = (styles == style) & np.isin(names, names[others])
        if asked.any():
            ranks = judge.ranks(shown[0][asked], names[asked].tolist())
            found[style] = {"count": len(ranks), "top1": float((ranks < 1).mean()), "top5": float((ranks < 5).mean())}
    return found


def _as_dicts(rates: dict[str, Rates]) -> dict[str, dict[str, float]]:
    return {split: asdict(rate) for split, rate in rates.items()}

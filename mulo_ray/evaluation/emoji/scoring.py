"""Pictures of evaluation captions in figures: hits of the judge, by split, and distances from real pictures.

Takes arrays from anywhere; `pictures_of_run` reads them from a finished run. Knows no decoder.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mulo_ray.errors import MuloError, UsageError
from mulo_ray.evaluation.emoji.features import Features, features
from mulo_ray.evaluation.emoji.kit import Kit
from mulo_ray.evaluation.emoji.prompts import EvalPrompt
from mulo_ray.evaluation.finished import RunStore, object_name
from mulo_ray.types import LedgerRow

MISSING = 1_000_000
"""The rank of a caption without a picture: never a hit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Shares of `count` captions whose concept is the judge's first guess, or among its first five."""

    count: int
    top1: float
    top5: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """`ranks` (n,) of the captioned concepts, in the order of the captions; distances None below two pictures.

    `features` (m, d) are those of the pictures that are there.
    """

    splits: Mapping[str, Rates]
    ranks: np.ndarray
    missing: int
    fd: float | None
    fd_full: float | None
    features: np.ndarray

    def hits(self, guesses: int = 5) -> np.ndarray:
        """Whether each caption's concept is among the first `guesses` (n,): what `bootstrap.rate_difference` takes."""
        return self.ranks < guesses


def score(
    kit: Kit, pictures: Sequence[np.ndarray | None], prompts: Sequence[EvalPrompt], looked_at: Features = features
) -> Scores:
    """Score pictures (s, s, 3) uint8, one per caption; None where there is none, which counts as a miss.

    Raises UsageError when the two lists differ in length, and where the extra `eval` is missing.
    """
    if len(pictures) != len(prompts):
        raise UsageError(f"one picture per caption is needed, got {len(pictures)} pictures for {len(prompts)} captions")
    there = [number for number, picture in enumerate(pictures) if picture is not None]
    seen = looked_at([picture for picture in pictures if picture is not None])
    ranks = np.full(len(prompts), MISSING)
    if there:
        ranks[there] = kit.judge.ranks(seen, [prompts[number].name for number in there])
    enough = len(there) > 1
    return Scores(
        splits=rates_by_split(ranks, prompts),
        ranks=ranks,
        missing=len(prompts) - len(there),
        fd=kit.distance(seen) if enough else None,
        fd_full=kit.full_distance(seen) if enough else None,
        features=seen,
    )


def rates_by_split(ranks: np.ndarray, prompts: Iterable[EvalPrompt]) -> dict[str, Rates]:
    """Rates of each split that has captions."""
    splits = np.array([prompt.split for prompt in prompts])
    found = {}
    for split in dict.fromkeys(splits.tolist()):
        own = ranks[splits == split]
        found[split] = Rates(count=len(own), top1=float((own < 1).mean()), top5=float((own < 5).mean()))
    return found


def pictures_of_run(
    store: RunStore, rows: Mapping[tuple[str, int], LedgerRow], prompts: Sequence[EvalPrompt]
) -> list[np.ndarray | None]:
    """The first picture that a finished run holds of each caption; None where it failed or cannot be read."""
    return [_picture(store, rows.get((prompt.key, 0))) for prompt in prompts]


def _picture(store: RunStore, row: LedgerRow | None) -> np.ndarray | None:
    if row is None or row.status != "ok":
        return None
    try:
        with Image.open(io.BytesIO(store.get(object_name(store, row)))) as image:
            return np.asarray(image.convert("RGB"))
    except (MuloError, OSError, ValueError):
        return None

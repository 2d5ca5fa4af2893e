"""What the judge says of real pictures after a round trip through a tokenizer: the ceiling of all that use it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.emoji.features import features
from mulo_ray.evaluation.emoji.kit import Kit
from mulo_ray.evaluation.emoji.passes import round_trip
from mulo_ray.evaluation.emoji.prompts import EvalPrompt
from mulo_ray.evaluation.emoji.scoring import Rates, rates_by_split
from mulo_ray.models.vq import VQ
from mulo_ray.training.pictures import Record, load_pictures
from mulo_ray.training.tokens import fingerprint


def real_rates(kit: Kit, prompts: Sequence[EvalPrompt], vq: VQ, data: Path | None) -> tuple[Mapping[str, Rates], str]:
    """Rates by split of the pictures behind the captions, and a note on where they come from.

    Measured with `vq` where the picture set is at hand, else as stored in the kit, with the tokenizer it had.
    """
    own = fingerprint(vq)
    if data is None:
        stored = kit.figures["round_trip_tokenizer"]
        ranks = np.array([kit.figures["round_trip_ranks"][prompt.key] for prompt in prompts])
        other = "" if stored == own else f", not with this one ({own}): give --data"
        return rates_by_split(ranks, prompts), f"stored, with tokenizer {stored}{other}"
    pictures = load_pictures(data, 128)
    chosen = numbers_of(pictures.records, [prompt.picture for prompt in prompts])
    seen = features(round_trip(vq, np.asarray(pictures.pixels[chosen])))
    ranks = kit.judge.ranks(seen, [prompt.name for prompt in prompts])
    return rates_by_split(ranks, prompts), f"measured with tokenizer {own}"


def numbers_of(records: Sequence[Record], keys: Sequence[str]) -> np.ndarray:
    """Where the pictures of these keys lie in the set (n,); UsageError when it lacks one."""
    place = {record.key: number for number, record in enumerate(records)}
    lacking = [key for key in keys if key not in place]
    if lacking:
        raise UsageError(
            f"the picture set lacks {len(lacking)} pictures of the evaluation captions, such as {lacking[0]!r}; "
            "make the emoji set with `python jobs/train.py data`"
        )
    return np.array([place[key] for key in keys])

"""The card of the embedded family: family.json beside its weights. Knows no torch."""

import hashlib
import json
from pathlib import Path

from mulo_ray.errors import CheckpointError, UsageError
from mulo_ray.models.catalog import RANDOM, FamilyCard

NAMES = ("emoji",)
_PACKAGED = Path(__file__).parent / "weights"


def read_card(name: str, weights: str | None) -> FamilyCard:
    """The card of the package, or of a directory of weights laid out like it.

    Raises CheckpointError when a file the card names is missing.
    """
    if weights == RANDOM:
        raise UsageError("--weights random makes no sense for family emoji, whose weights are in the package")
    folder = Path(weights) if weights else _PACKAGED
    try:
        data = json.loads((folder / "family.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise CheckpointError(
            f"no family card at {folder / 'family.json'} ({error}); --weights takes a directory that holds one"
        ) from error
    digest = hashlib.sha256()
    size = 0
    rescalers = data.get("rescalers", {})
    heads = data.get("heads", {})
    parts = [data["tokenizer"], *data["scales"].values(), *rescalers.values(), *heads.values()]
    for file in [part["file"] for part in parts]:
        path = folder / file
        if not path.is_file():
            raise CheckpointError(
                f"the family card in {folder} names {file}, which is not there; copy the directory again"
            )
        content = path.read_bytes()
        digest.update(content)
        size += len(content)
    drafter_px, target_px = data["default_pair"]
    return FamilyCard(
        name=name,
        folder=folder,
        scales={int(px): scale["side"] for px, scale in data["scales"].items()},
        default_pair=(drafter_px, target_px),
        defaults=data["defaults"],
        pair_defaults=data.get("pair_defaults", {}),
        learned_ratios=tuple(sorted(int(ratio) for ratio in rescalers)),
        heads={int(px): head["file"] for px, head in heads.items()},
        weights_fingerprint=digest.hexdigest()[:16],
        role_bytes=700 * 2**20 + 4 * size,
        loader="mulo_ray.models.emoji.family:EmojiFamily",
    )

"""What a family is, readable without torch: its sizes, defaults and the fingerprint of its weights.

The driver plans, checks and hashes with this; only worker processes load the networks.
"""

import difflib
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mulo_ray.errors import CheckpointError, UsageError

_PACKAGED = {"emoji": Path(__file__).parent / "emoji" / "weights"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCard:
    """`scales` maps image side in pixels to cells per row; `defaults` holds measured option values of the default pair;
    `pair_defaults` what differs for other pairs, keyed "32-128"."""

    name: str
    folder: Path
    scales: dict[int, int]
    default_pair: tuple[int, int]
    defaults: dict[str, Any]
    pair_defaults: dict[str, dict[str, Any]] = field(default_factory=dict)
    weights_fingerprint: str
    role_bytes: int  # memory of one role: weights in float32, caches of a micro-batch of 16 and the libraries

    def defaults_for(self, drafter_px: int, target_px: int) -> dict[str, Any]:
        """Option values measured for a pair of sizes."""
        return {**self.defaults, **self.pair_defaults.get(f"{drafter_px}-{target_px}", {})}


def family_names() -> list[str]:
    """Names accepted by `--family`."""
    return sorted(_PACKAGED)


def read_card(family: str, weights: str | None = None) -> FamilyCard:
    """The card of a family, from the package or from a directory of weights laid out like it.

    Raises UsageError for an unknown family, CheckpointError when a file the card names is missing.
    """
    if family not in _PACKAGED:
        near = difflib.get_close_matches(family, family_names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"--family must be one of {', '.join(family_names())}, got {family!r}{hint}")
    folder = Path(weights) if weights else _PACKAGED[family]
    try:
        data = json.loads((folder / "family.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise CheckpointError(
            f"no family card at {folder / 'family.json'} ({error}); --weights takes a directory that holds one"
        ) from error
    digest = hashlib.sha256()
    size = 0
    for name in [data["tokenizer"]["file"], *(scale["file"] for scale in data["scales"].values())]:
        path = folder / name
        if not path.is_file():
            raise CheckpointError(
                f"the family card in {folder} names {name}, which is not there; copy the directory again"
            )
        content = path.read_bytes()
        digest.update(content)
        size += len(content)
    drafter_px, target_px = data["default_pair"]
    return FamilyCard(
        name=family,
        folder=folder,
        scales={int(px): scale["side"] for px, scale in data["scales"].items()},
        default_pair=(drafter_px, target_px),
        defaults=data["defaults"],
        pair_defaults=data.get("pair_defaults", {}),
        weights_fingerprint=digest.hexdigest()[:16],
        role_bytes=700 * 2**20 + 4 * size,
    )

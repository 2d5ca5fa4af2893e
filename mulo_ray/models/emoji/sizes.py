"""The sizes that a family folder's card states for each scale. Knows no weights."""

import json
from pathlib import Path

from mulo_ray.models.emoji.network import EmojiSizes


def scale_sizes(folder: Path, px: int) -> EmojiSizes:
    """Layers and text width of one scale; the first family's where the card says nothing."""
    card = json.loads((folder / "family.json").read_text(encoding="utf-8"))
    return EmojiSizes(**card["scales"][str(px)].get("sizes", {}))

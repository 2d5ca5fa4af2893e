"""What a family is, readable without torch: its sizes, defaults and the fingerprint of its weights.

The driver plans, checks and hashes with this; only worker processes load the networks. Adding a family adds its folder
and one line here: a module with `NAMES` and `read_card(name, weights)`.
"""

import difflib
import importlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mulo_ray.errors import UsageError
from mulo_ray.models.memory import FamilyMemory

_CARDS = (
    "mulo_ray.models.emoji.card",
    "mulo_ray.models.llamagen.card",
    "mulo_ray.models.tar.card",
)

RANDOM = "random"
"""`--weights random`: real shapes, seeded weights, no files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCard:
    """`scales` maps image side in pixels to cells per row; `defaults` holds measured option values of the default pair;
    `pair_defaults` what differs for other pairs, keyed "32-128"."""

    name: str
    folder: Path  # where its files lie on this machine; nowhere with random weights
    scales: dict[int, int]
    default_pair: tuple[int, int]
    defaults: dict[str, Any]
    pair_defaults: dict[str, dict[str, Any]] = field(default_factory=dict)
    weights_fingerprint: str
    role_bytes: int  # memory of one role: weights in float32, caches of a micro-batch of 16 and the libraries
    learned_ratios: tuple[int, ...] = ()  # ratios with trained `latent` samplers
    loader: str = ""  # "module:Class", called with (card, device) where the networks are to live
    checker: str = ""  # "module:function", called with (card, sides in pixels) before anything starts
    config: Any = None  # the family's own configuration, where files do not state theirs
    memory: FamilyMemory | None = None  # for plans; None where nobody needs one
    random: bool = False
    conditioner: bool = False  # prompts go through a text network, which runs as a stage of its own
    fixed_grids: bool = False  # a scale's positions belong to its own grid, so it cannot draft on another
    heads: dict[int, str] = field(default_factory=dict)  # EAGLE heads: image side in pixels -> file

    def defaults_for(self, drafter_px: int, target_px: int) -> dict[str, Any]:
        """Option values measured for a pair of sizes."""
        return {**self.defaults, **self.pair_defaults.get(f"{drafter_px}-{target_px}", {})}


def family_names() -> list[str]:
    """Names accepted by `--family`."""
    return sorted(_modules())


def read_card(family: str, weights: str | None = None) -> FamilyCard:
    """The card of a family: packaged, or made from `weights`: a directory, an fsspec URI, a hub id or "random".

    Raises UsageError for an unknown family or one whose weights must be named, CheckpointError when files are missing.
    """
    modules = _modules()
    if family not in modules:
        near = difflib.get_close_matches(family, modules, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"--family must be one of {', '.join(sorted(modules))}, got {family!r}{hint}")
    card: FamilyCard = modules[family].read_card(family, weights)
    return card


def check_weights(card: FamilyCard, sides_px: Collection[int]) -> None:
    """Open the files of the scales in use without loading them; CheckpointError when one is missing or unfit."""
    if card.checker:
        module, name = card.checker.split(":")
        getattr(importlib.import_module(module), name)(card, sides_px)


def _modules() -> dict[str, Any]:
    modules = [importlib.import_module(name) for name in _CARDS]
    return {family: module for module in modules for family in module.NAMES}

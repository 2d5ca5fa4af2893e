"""The card of a family whose weights are official files: found in a folder and fingerprinted. Knows no torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mulo_ray.errors import CheckpointError, UsageError
from mulo_ray.models.catalog import RANDOM, FamilyCard
from mulo_ray.models.official_config import OfficialConfig, Reader, config_in, config_json
from mulo_ray.models.sources import fingerprint, local_folder

MULO_DEFAULTS = {
    "tau": 0.01,
    "neighbours": 16,
    "radius": 1,
    "redraw": "islands",
    "rows_per_cycle": 0,
    "zipar_window": 0,
    "upsampler": "pixel",
    "refresh_cache": False,
}
"""Unmeasured: nobody has run the published weights by this code yet."""


def official_card(
    name: str, weights: str | None, published: OfficialConfig, readers: Mapping[str, Reader], **fixed: Any
) -> FamilyCard:
    """The card of family `name`; `fixed` are fields that its folder of the package decides.

    Raises UsageError when no weights are named, CheckpointError when there is no scale's file where they should lie.
    """
    if weights is None:
        raise UsageError(
            f"family {name} has no weights in the package: give --weights a folder, a URI or a hub id "
            "(docs/models.md says which files), or random"
        )
    if weights == RANDOM:
        mark = fingerprint([], base=f"random {config_json(name, published)}")
        return _card(name, published, Path(), mark, random=True, **fixed)
    folder = local_folder(weights, _wanted(published))
    config = config_in(folder, name, published, readers)
    if config is not published:
        folder = local_folder(weights, _wanted(config))  # a remote family.json may name other files
    scales = list(config.scale_files().values())
    if not any(find_file(folder, file) for file in scales):
        raise CheckpointError(
            f"{folder} holds none of {', '.join(scales)} (nor their .safetensors), which {name} needs"
        )
    found = (find_file(folder, file) for file in dict.fromkeys([*scales, *config.other_files()]))
    paths = [path for path in found if path is not None]
    if config.text_folder is not None and (text := folder / config.text_folder).is_dir():
        paths += sorted(path for path in text.iterdir() if path.is_file() and not path.name.startswith("."))
    return _card(name, config, folder, fingerprint(paths, base=config_json(name, config)), **fixed)


def find_file(folder: Path, name: str) -> Path | None:
    """A file by its published name, or its safetensors form under the same stem; None when neither is there."""
    candidates = (folder / name, (folder / name).with_suffix(".safetensors"))
    return next((path for path in candidates if path.is_file()), None)


def _wanted(config: OfficialConfig) -> list[str]:
    """Patterns of the files to fetch from a remote folder, which may hold many other models."""
    names = {*config.scale_files().values(), *config.other_files()}
    text = [] if config.text_folder is None else [f"{config.text_folder}/*"]
    return ["family.json", *sorted({f"{Path(name).stem}.*" for name in names}), *text]


def _card(name: str, config: OfficialConfig, folder: Path, weights: str, **fixed: Any) -> FamilyCard:
    sides = sorted(config.scale_files())
    memory = config.memory()
    largest = max(scale.parameters for scale in memory.scales.values()) + memory.tokenizer_parameters
    return FamilyCard(
        name=name,
        folder=folder,
        scales={px: config.side(px) for px in sides},
        default_pair=(sides[0], sides[min(1, len(sides) - 1)]),
        defaults=MULO_DEFAULTS | dict(config.defaults),
        weights_fingerprint=weights,
        role_bytes=700 * 2**20 + 4 * largest,
        config=config,
        memory=memory,
        conditioner=config.text_folder is not None,
        **fixed,
    )

"""The card of a Tar family, from its configuration and a folder of its files. Knows no torch."""

from pathlib import Path

from mulo_ray.errors import CheckpointError, UsageError
from mulo_ray.models.catalog import RANDOM, FamilyCard
from mulo_ray.models.sources import fingerprint, local_folder
from mulo_ray.models.tar.config import CONFIGS, TarConfig, config_in, config_json

NAMES = tuple(CONFIGS)

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


def read_card(name: str, weights: str | None) -> FamilyCard:
    """The card of `tar-...`.

    Raises UsageError when no weights are named, CheckpointError when there is no scale's file where they should lie.
    """
    if weights is None:
        raise UsageError(
            f"family {name} has no weights in the package: give --weights a folder, a URI or a hub id "
            "(docs/models.md says which files), or random"
        )
    if weights == RANDOM:
        config = CONFIGS[name]
        return _card(name, config, Path(), fingerprint([], base=f"random {config_json(name, config)}"), random=True)
    folder = local_folder(weights, _wanted(CONFIGS[name]))
    config = config_in(folder, name)
    if config is not CONFIGS[name]:
        folder = local_folder(weights, _wanted(config))  # a remote family.json may name other files
    if not any(find_file(folder, file) for file in config.scales.values()):
        looked_for = ", ".join(config.scales.values())
        raise CheckpointError(f"{folder} holds none of {looked_for} (nor their .safetensors), which {name} needs")
    found = (find_file(folder, file) for file in (*config.scales.values(), config.tokenizer, config.semantic))
    paths = [path for path in found if path is not None]
    language = folder / config.language
    if language.is_dir():
        paths += sorted(path for path in language.iterdir() if path.is_file() and not path.name.startswith("."))
    return _card(name, config, folder, fingerprint(paths, base=config_json(name, config)))


def find_file(folder: Path, name: str) -> Path | None:
    """A file by its published name, or its safetensors form under the same stem; None when neither is there."""
    candidates = (folder / name, (folder / name).with_suffix(".safetensors"))
    return next((path for path in candidates if path.is_file()), None)


def _wanted(config: TarConfig) -> list[str]:
    """Patterns of the files to fetch from a remote folder, which may hold many other models."""
    names = {*config.scales.values(), config.tokenizer, config.semantic}
    return ["family.json", *sorted(f"{Path(name).stem}.*" for name in names), f"{config.language}/*"]


def _card(name: str, config: TarConfig, folder: Path, weights: str, *, random: bool = False) -> FamilyCard:
    sides = sorted(config.scales)
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
        loader="mulo_ray.models.tar.family:TarFamily",
        checker="mulo_ray.models.tar.check:check_files",
        config=config,
        memory=memory,
        random=random,
        conditioner=True,
        fixed_grids=True,
    )

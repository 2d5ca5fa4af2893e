"""What LlamaGen and Tar share as configurations: published sizes that a `family.json` beside the weights may replace.

Knows no torch.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mulo_ray.errors import CheckpointError
from mulo_ray.models.memory import FamilyMemory
from mulo_ray.models.vq_sizes import VQ_16, VQSizes


class OfficialConfig(Protocol):
    """A family whose weights are files of the official code."""

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Sampling of the official samplers, by option."""

    @property
    def text_folder(self) -> str | None:
        """Folder of the text network inside the weights folder; None for a family without one."""

    def scale_files(self) -> dict[int, str]:
        """Image side in pixels -> the file of that scale."""

    def other_files(self) -> list[str]:
        """What else is needed, by file name."""

    def side(self, px: int) -> int:
        """Cells per row."""

    def memory(self) -> FamilyMemory:
        """What a plan needs."""


Config = TypeVar("Config", bound=OfficialConfig)
Reader = Callable[[Any, Any], Any]
"""(value in family.json, the published value) -> the value of the configuration."""


def config_in(folder: Path, name: str, published: Config, readers: Mapping[str, Reader]) -> Config:
    """The configuration of a family, with the values that `family.json` in `folder` replaces.

    Raises CheckpointError for a file that is no JSON object, names another family or an unknown value.
    """
    path = folder / "family.json"
    if not path.is_file():
        return published
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("family", name) != name:
            raise CheckpointError(f"{path} is that of another family; give --family the one it names")
        for field in data.keys() & readers.keys():
            data[field] = readers[field](data[field], getattr(published, field))
        return dataclasses.replace(published, **data)  # type: ignore[type-var]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} does not describe a family ({error}); see docs/models.md") from error


def config_json(name: str, config: Any) -> str:
    """What `config_in` reads."""
    return json.dumps({"family": name} | dataclasses.asdict(config), indent=1) + "\n"


def read_vq(value: Any, published: VQSizes) -> VQSizes:
    """Sizes of a tokenizer; its multipliers are those of VQ-16 where they are not stated."""
    sizes = dict(value)
    return VQSizes(**sizes | {"multipliers": tuple(sizes.get("multipliers", VQ_16.multipliers))})

"""The files of a comparison: one per timed cell and one per part of a setting's pictures, so that a killed run goes on.

Knows no model.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mulo_ray.bench.options import same_or_refuse
from mulo_ray.bench.settings import Setting
from mulo_ray.storage import Store

SETTINGS_JSON = "settings.json"


@dataclass(slots=True, kw_only=True)
class TimedCell:
    """A setting at a batch size. A round is one micro-batch, decoded beside the yardstick's.

    `rounds`: round number -> {"seconds", "yardstick": seconds per image; "stats": means per image}. `rejected` (H, W):
    how many of `images` lost their draft at each cell.
    """

    rounds: dict[int, dict[str, Any]] = field(default_factory=dict)
    rejected: np.ndarray | None = None
    images: int = 0


class Kept:
    """What an output holds of a comparison."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def claim(self, fixed: Mapping[str, Any]) -> None:
        """Begin an output, or go on with one; UsageError where it was made with other settings."""
        there = self._get(SETTINGS_JSON)
        if there is None:
            self.store.probe()
            self.store.put(SETTINGS_JSON, (json.dumps(fixed, indent=1) + "\n").encode())
        else:
            same_or_refuse(json.loads(there), dict(fixed), self.store.uri)

    def cell(self, setting: Setting, batch: int) -> TimedCell:
        """The cell as far as it was measured."""
        data = self._get(_cell_name(setting, batch))
        if data is None:
            return TimedCell()
        page = json.loads(data)
        rejected = None if page["rejected"] is None else np.array(page["rejected"])
        rounds = {int(number): one for number, one in page["rounds"].items()}
        return TimedCell(rounds=rounds, rejected=rejected, images=page["images"])

    def put_cell(self, setting: Setting, batch: int, cell: TimedCell) -> None:
        """Replace the cell."""
        page = {
            "setting": setting.name,
            "batch": batch,
            "rounds": cell.rounds,
            "images": cell.images,
            "rejected": None if cell.rejected is None else cell.rejected.tolist(),
        }
        self.store.put(_cell_name(setting, batch), json.dumps(page).encode())

    def part(self, setting: Setting, start: int) -> dict[str, np.ndarray] | None:
        """Arrays over the captions from number `start` on; None where they were not made yet."""
        data = self._get(_part_name(setting, start))
        if data is None:
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def put_part(self, setting: Setting, start: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a part."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        self.store.put(_part_name(setting, start), buffer.getvalue())

    def sheet(self, setting: Setting) -> list[bytes]:
        """PNGs of the first captions, where they were kept."""
        found = (self._get(f"{_folder(setting)}/{number}.png") for number in range(SHEET))
        return [png for png in found if png is not None]

    def put_picture(self, setting: Setting, number: int, png: bytes) -> None:
        """Keep the picture of one of the first captions."""
        self.store.put(f"{_folder(setting)}/{number}.png", png)

    def _get(self, name: str) -> bytes | None:
        try:
            return self.store.get(name)
        except FileNotFoundError:
            return None


SHEET = 8
"""Pictures of each setting that the page shows."""


def _cell_name(setting: Setting, batch: int) -> str:
    return f"cells/{setting.slug}-b{batch}.json"


def _folder(setting: Setting) -> str:
    return f"pictures/{setting.slug}"


def _part_name(setting: Setting, start: int) -> str:
    return f"{_folder(setting)}/{start:05d}.npz"

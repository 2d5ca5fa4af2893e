"""The files of the kit as objects: statistics of real pictures, their main axes, and the judge.

`kit.npz` holds the numbers, `kit.json` the concepts and what was measured when they were made. Knows no caption.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mulo_ray.errors import CheckpointError
from mulo_ray.evaluation.emoji.features import INPUT_PX
from mulo_ray.evaluation.emoji.frechet import Moments, frechet_distance, moments, pack, unpack
from mulo_ray.evaluation.emoji.judge import Judge

FOLDER = Path(__file__).parent
AXES = 64
_REAL, _JUDGE = "real.", "judge."


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """`real` are the features of all real pictures, `axes` (d, 64) their main directions.

    `figures` is what was measured on real pictures: rates, their round trips through a tokenizer, distances.
    """

    real: Moments
    axes: np.ndarray
    judge: Judge
    figures: Mapping[str, Any]

    def distance(self, features: np.ndarray) -> float:
        """FD-EffLite0 of features (n, d) from real pictures, on the 64 main axes: steady from some hundred pictures."""
        return self.axes_distance(features @ self.axes)

    def axes_distance(self, projected: np.ndarray) -> float:
        """The same of features already on the axes (n, 64): what a bootstrap repeats."""
        return frechet_distance(moments(projected), self.real.projected(self.axes))

    def full_distance(self, features: np.ndarray) -> float:
        """FD-EffLite0 on all features; for fewer pictures than features it is large and says little."""
        return frechet_distance(moments(features), self.real)


def load_kit(folder: Path = FOLDER) -> Kit:
    """The kit of the package, or another one made by `jobs/evaluate.py fit`.

    Raises CheckpointError when a file is missing, broken, or made for another input size.
    """
    try:
        figures = json.loads((folder / "kit.json").read_text(encoding="utf-8"))
        with np.load(folder / "kit.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        names, input_px = figures["concepts"], figures["input_px"]
        judge = Judge(**_part(arrays, _JUDGE), names=names)
        real, axes = unpack(_part(arrays, _REAL)), arrays["axes"].astype(np.float64)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"no evaluation kit in {folder} ({error}); `python jobs/evaluate.py fit` makes one: kit.npz and kit.json"
        ) from error
    if input_px != INPUT_PX:
        raise CheckpointError(
            f"the evaluation kit in {folder} is for pictures of {input_px} px, this version looks at {INPUT_PX} px; "
            "make it again with `python jobs/evaluate.py fit`"
        )
    return Kit(real=real, axes=axes, judge=judge, figures=figures)


def save_kit(kit: Kit, folder: Path) -> None:
    """Write `kit.npz` and `kit.json`; the concepts go with the figures."""
    arrays = {_REAL + name: value for name, value in pack(kit.real).items()}
    arrays |= {_JUDGE + name: value for name, value in kit.judge.arrays().items()}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "kit.npz", allow_pickle=False, axes=kit.axes.astype(np.float16), **arrays)
    page = {"input_px": INPUT_PX, **kit.figures, "concepts": list(kit.judge.names)}
    (folder / "kit.json").write_text(_readable(page), encoding="utf-8")


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _readable(page: Mapping[str, Any]) -> str:
    """One line per entry: a thousand ranks or names do not fill a thousand lines."""
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in page.items()) + "\n}\n"

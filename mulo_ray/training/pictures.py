"""The training set on disk: pictures at each size as uint8 arrays, with their names. Knows no model."""

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from mulo_ray.errors import UsageError
from mulo_ray.training.emoji_sources import Icon
from mulo_ray.training.held_out import read_splits, split_of

SIZES_PX = (32, 64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One picture in words. `split` is `train` or a held-out one; `mirrors` allows its mirror image in training."""

    key: str
    name: str
    style: str = ""
    keywords: list[str] = field(default_factory=list)
    split: str = "train"
    mirrors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """One size of the set: pixels (n, px, px, 3) uint8, mapped from disk, and a record per picture."""

    px: int
    pixels: np.ndarray
    records: list[Record]

    def split(self, *names: str) -> np.ndarray:
        """Indices of the pictures in these splits."""
        return np.array([i for i, record in enumerate(self.records) if record.split in names], dtype=np.int64)


def rasterise(icons: list[Icon], folder: Path) -> None:
    """Write `<px>.npy` per size and `pictures.jsonl`: each SVG drawn exactly at each size, on white."""
    import resvg_py

    folder.mkdir(parents=True, exist_ok=True)
    for px in SIZES_PX:
        pixels = np.empty((len(icons), px, px, 3), np.uint8)
        for index, icon in enumerate(icons):
            png = bytes(
                resvg_py.svg_to_bytes(
                    svg_string=icon.svg, width=px, height=px, background="#ffffff", skip_system_fonts=True
                )
            )
            pixels[index] = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
        np.save(folder / f"{px}.npy", pixels)
    concepts, combinations = read_splits()
    write_records(
        folder,
        [
            Record(
                key=icon.key,
                name=icon.concept.name,
                style=icon.style,
                keywords=list(icon.concept.keywords),
                split=split_of(icon, concepts, combinations),
                mirrors=icon.concept.mirrors,
            )
            for icon in icons
        ],
    )


def write_records(folder: Path, records: list[Record]) -> None:
    """`pictures.jsonl`: the records of `<px>.npy`, in the same order."""
    lines = (json.dumps(asdict(record)) for record in records)
    (folder / "pictures.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def load_pictures(folder: Path, px: int) -> Pictures:
    """The pictures of one size; UsageError naming the command that makes them when they are not there."""
    try:
        pixels = np.load(folder / f"{px}.npy", mmap_mode="r")
        lines = (folder / "pictures.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise UsageError(
            f"no pictures of {px} px in {folder}; run `python jobs/train.py data --folder {folder}` first"
        ) from error
    return Pictures(px=px, pixels=pixels, records=[Record(**json.loads(line)) for line in lines])

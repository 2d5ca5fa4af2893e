"""The training set on disk: pictures at each size as uint8 arrays, with their names. Knows no model."""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from mulo_ray.errors import UsageError
from mulo_ray.training.emoji_sources import Icon

SIZES_PX = (32, 64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """One size of the set: pixels (n, px, px, 3) uint8, mapped from disk, and the caption words of each picture."""

    px: int
    pixels: np.ndarray
    names: list[str]
    styles: list[str]


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
    lines = (json.dumps({"key": icon.key, "style": icon.style, "name": icon.name}) for icon in icons)
    (folder / "pictures.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def load_pictures(folder: Path, px: int) -> Pictures:
    """The pictures of one size; UsageError naming the command that makes them when they are not there."""
    try:
        pixels = np.load(folder / f"{px}.npy", mmap_mode="r")
        records = [json.loads(line) for line in (folder / "pictures.jsonl").read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError as error:
        raise UsageError(
            f"no pictures of {px} px in {folder}; run `python jobs/train.py data --folder {folder}` first"
        ) from error
    return Pictures(px=px, pixels=pixels, names=[r["name"] for r in records], styles=[r["style"] for r in records])

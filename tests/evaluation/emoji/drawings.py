"""Pictures that anybody can tell apart, as a picture set on disk: shapes in colours, in two styles."""

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from mulo_ray.training.pictures import Record, write_records

COLOURS = ("red", "green", "blue", "gold")
SHAPES = ("disc", "square", "cross")
NAMES = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]


def draw(name: str, style: str, px: int) -> np.ndarray:
    """One picture (px, px, 3) uint8 on white; the style `thin` leaves a ring of its shape."""
    colour, shape = name.split()
    image = Image.new("RGB", (px, px), "white")
    pen, margin = ImageDraw.Draw(image), px // 8
    box = (margin, margin, px - margin, px - margin)
    if shape == "disc":
        pen.ellipse(box, fill=colour)
    elif shape == "square":
        pen.rectangle(box, fill=colour)
    else:
        pen.line(box, fill=colour, width=px // 6)
        pen.line((box[0], box[3], box[2], box[1]), fill=colour, width=px // 6)
    if style == "thin" and shape != "cross":
        inner = tuple(v + (px // 8) * sign for v, sign in zip(box, (1, 1, -1, -1), strict=True))
        (pen.ellipse if shape == "disc" else pen.rectangle)(inner, fill="white")
    return np.asarray(image)


def write_drawings(folder: Path) -> list[Record]:
    """A picture set as `jobs/train.py data` leaves it; the last name is a held-out concept."""
    folder.mkdir(parents=True, exist_ok=True)
    records = [
        Record(
            key=f"{style}/{name.replace(' ', '-')}",
            name=name,
            style=style,
            split="concept" if name == NAMES[-1] else "train",
            mirrors=True,
        )
        for style in ("full", "thin")
        for name in NAMES
    ]
    for px in (32, 64, 128):
        np.save(folder / f"{px}.npy", np.stack([draw(record.name, record.style, px) for record in records]))
    write_records(folder, records)
    return records


def write_prompts_for(records: list[Record], path: Path) -> None:
    """A caption per picture, in the layout of eval_prompts.jsonl."""
    lines = [
        {
            "key": f"eval-{number:04d}",
            "text": f"a {record.name}",
            "split": "concept" if record.split == "concept" else "seen",
            "picture": record.key,
            "concept": {"code": "0", "name": record.name},
        }
        for number, record in enumerate(records)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")

"""A picture set drawn in a second: coloured shapes with captions, to try the training on. Knows no model."""

import json
from pathlib import Path

from PIL import Image, ImageDraw

_COLOURS = ("red", "blue", "green", "orange", "purple", "black")
_PX = 128


def draw_shapes(folder: Path, variants: int = 8) -> int:
    """An imagefolder of circles, squares, triangles and bars in six colours and several sizes; how many pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for colour in _COLOURS:
        for shape in ("circle", "square", "triangle", "bar"):
            for variant in range(variants):
                name = f"{colour}-{shape}-{variant}.png"
                _draw(shape, colour, radius=24 + 4 * variant, left=variant * 2).save(folder / name)
                lines.append(json.dumps({"file_name": name, "text": f"a {colour} {shape}"}))
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def _draw(shape: str, colour: str, radius: int, left: int) -> Image.Image:
    image = Image.new("RGB", (_PX, _PX), "white")
    draw = ImageDraw.Draw(image)
    middle = _PX // 2
    box = (middle - radius + left, middle - radius, middle + radius + left, middle + radius)
    if shape == "circle":
        draw.ellipse(box, fill=colour)
    elif shape == "square":
        draw.rectangle(box, fill=colour)
    elif shape == "triangle":
        draw.polygon([(box[0], box[3]), (box[2], box[3]), ((box[0] + box[2]) // 2, box[1])], fill=colour)
    else:
        draw.rectangle((box[0], middle - 8, box[2], middle + 8), fill=colour)
    return image

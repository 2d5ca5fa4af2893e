"""Pictures for reports: thumbnails as data URIs, and a captioned contact sheet as one PNG.

Knows encoded images and captions; no run, no ledger.
"""

import base64
import io
import textwrap
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from mulo_ray.errors import UsageError

THUMBNAIL_PX = 192
_INK, _PAPER = (31, 36, 48), (255, 255, 255)


def thumbnail_uri(data: bytes, side_px: int = THUMBNAIL_PX) -> str:
    """A data URI of an encoded image: as it is when no side exceeds `side_px`, else scaled down to JPEG."""
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        if max(image.size) <= side_px and image.format in ("PNG", "JPEG", "WEBP"):
            return _data_uri(data, image.format.lower())
        small = image.convert("RGB")
    small.thumbnail((side_px, side_px), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=88)
    return _data_uri(buffer.getvalue(), "jpeg")


def contact_sheet(tiles: Sequence[tuple[str, bytes]], columns: int = 8, tile_px: int = 128) -> bytes:
    """One PNG of (caption, encoded image) tiles, row by row, each captioned below in at most three lines.

    Raises UsageError without tiles or columns.
    """
    if not tiles or columns < 1:
        raise UsageError(f"a contact sheet needs at least one tile and one column, got {len(tiles)} and {columns}")
    font, line_px, gap = ImageFont.load_default(size=12), 15, 12
    columns = min(columns, len(tiles))
    text_px = 3 * line_px + 4
    cell_w, cell_h = tile_px + gap, tile_px + text_px + gap
    sheet = Image.new("RGB", (columns * cell_w + gap, -(-len(tiles) // columns) * cell_h + gap), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for n, (caption, data) in enumerate(tiles):
        x, y = gap + n % columns * cell_w, gap + n // columns * cell_h
        with Image.open(io.BytesIO(data)) as image:
            sheet.paste(image.convert("RGB").resize((tile_px, tile_px), Image.Resampling.LANCZOS), (x, y))
        lines = textwrap.wrap(caption, width=max(8, tile_px // 6), max_lines=3, placeholder=" ...")
        for k, line in enumerate(lines):
            draw.text((x, y + tile_px + 4 + k * line_px), line, fill=_INK, font=font)
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _data_uri(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"

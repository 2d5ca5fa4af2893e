"""A finished run for tests: a directory store, rows with real PNGs and stats, and a resolved config."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from mulo_ray.config import DecoderOptions, JobConfig, SamplingOptions
from mulo_ray.types import LedgerRow, Report


class FolderStore:
    """The three methods evaluation needs, over a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(data)

    def uri_of(self, name: str) -> str:
        return f"{self.root.as_posix()}/{name}"


def png(side_px: int = 64, colour: tuple[int, int, int] = (200, 60, 40)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (side_px, side_px), colour).save(buffer, format="PNG")
    return buffer.getvalue()


def stats(**counts: Any) -> str:
    base = {"forwards_target": 40, "forwards_drafter": 20, "query_positions": 900, "cycles": 4, "accepted": 60}
    base |= {"rejected": 40, "resampled": 70, "islands": 6, "depth": 30}
    return json.dumps(base | {"seconds": {"draft": 0.1, "verify": 0.3}} | counts)


def add_image(store: FolderStore, rows: dict[tuple[str, int], LedgerRow], key: str, **fields: Any) -> None:
    """Put one image and its ok row."""
    store.put(f"images/{key}.png", png(fields.pop("side_px", 64)))
    row = LedgerRow(key=key, sample=0, status="ok", uri=store.uri_of(f"images/{key}.png"), stats=stats(), bytes=100)
    rows[key, 0] = dataclasses.replace(row, **{"prompt": f"a picture of {key}", **fields})


def resolved(decoder: dict[str, Any] | None = None, sampling: dict[str, Any] | None = None) -> dict[str, Any]:
    """A config as a run resolves it, with a pixel hash."""
    options = {"decoder": "mulo", "tau": 0.1, "redraw": "islands"} | (decoder or {})
    config = JobConfig(decoding=DecoderOptions(**options), sampling=SamplingOptions(**(sampling or {})))
    return {"pixel_hash": "0123456789abcdef", "config": dataclasses.asdict(config)}


def report(**fields: Any) -> Report:
    return Report(**({"total": 3, "made": 3, "seconds": 6.0, "images_per_s": 0.5, "output": "out/run"} | fields))

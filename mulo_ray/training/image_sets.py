"""A user's own pictures with captions as a training set: imagefolder, WebDataset shards, Parquet. Knows no model."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from mulo_ray.errors import UsageError
from mulo_ray.training.pictures import SIZES_PX, Record, write_records

Sample = tuple[str, bytes, str]
"""Key, encoded image, caption."""

_IMAGES = (".png", ".jpg", ".jpeg", ".webp")
_HOLD_OUT_EVERY = 50
"""Every n-th picture is held out, to measure on."""


def write_pictures(source: str, folder: Path) -> int:
    """Draw every captioned picture of `source` at each size into `folder`; how many there are.

    Pictures are cut to their central square and laid on white. Raises UsageError for a source of no known kind, one
    without captions, and a file that is no picture, by its name.
    """
    samples = list(_read(Path(source)))
    if not samples:
        raise UsageError(f"no captioned pictures in {source}; see docs/training.md for the layouts that are read")
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {px: np.empty((len(samples), px, px, 3), np.uint8) for px in SIZES_PX}
    records = []
    for index, (key, content, text) in enumerate(samples):
        square = _square(content, key)
        for px, pixels in sizes.items():
            pixels[index] = np.asarray(square.resize((px, px), Image.Resampling.LANCZOS))
        split = "concept" if index % _HOLD_OUT_EVERY == _HOLD_OUT_EVERY - 1 else "train"
        records.append(Record(key=key, name=" ".join(text.split()), split=split))
    for px, pixels in sizes.items():
        np.save(folder / f"{px}.npy", pixels)
    write_records(folder, records)
    return len(samples)


def _read(source: Path) -> Iterator[Sample]:
    if source.is_file():
        shards = [source]
    elif source.is_dir():
        if (source / "metadata.jsonl").exists():
            yield from _imagefolder(source)
            return
        shards = sorted([*source.glob("*.tar"), *source.glob("*.parquet")])
    else:
        raise UsageError(f"no such file or folder: {source}; --images takes a local path")
    if not shards:
        raise UsageError(
            f"{source} holds neither metadata.jsonl nor *.tar nor *.parquet; see docs/training.md for the layouts"
        )
    for shard in shards:
        yield from _webdataset(shard) if shard.suffix == ".tar" else _parquet(shard)


def _imagefolder(folder: Path) -> Iterator[Sample]:
    lines = (folder / "metadata.jsonl").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            name, text = record["file_name"], record["text"]
            content = (folder / name).read_bytes()
        except (json.JSONDecodeError, KeyError, TypeError, OSError) as error:
            raise UsageError(
                f"{folder / 'metadata.jsonl'} line {number}: {error!r}; each line needs file_name and text"
            ) from error
        yield name, content, text


def _webdataset(shard: Path) -> Iterator[Sample]:
    """Members of one key follow each other: an image, and its caption as .txt or in .json under text or caption."""
    parts: dict[str, bytes] = {}
    current = ""
    try:
        with tarfile.open(shard) as tar:
            for member in tar:
                if not member.isfile():
                    continue
                key, _, suffix = member.name.partition(".")
                if key != current:
                    yield from _joined(shard, current, parts)
                    current, parts = key, {}
                file = tar.extractfile(member)
                assert file is not None, "a regular member has content"
                parts[f".{suffix.lower()}"] = file.read()
    except tarfile.TarError as error:
        raise UsageError(f"{shard} is not a readable tar file ({error})") from error
    yield from _joined(shard, current, parts)


def _joined(shard: Path, key: str, parts: dict[str, bytes]) -> Iterator[Sample]:
    image = next((parts[suffix] for suffix in _IMAGES if suffix in parts), None)
    if image is None:
        return
    if ".txt" in parts:
        text = parts[".txt"].decode("utf-8", "replace")
    else:
        record = json.loads(parts.get(".json", b"{}"))
        text = record.get("text") or record.get("caption") or ""
    if not text.strip():
        raise UsageError(f"{shard}: {key} has no caption; give it a .txt, or a .json with text or caption")
    yield f"{shard.stem}/{key}", image, text


def _parquet(path: Path) -> Iterator[Sample]:
    """An `image` column of bytes, or of {bytes, path} as the Hub writes it, and a `text` or `caption` column."""
    import pyarrow.parquet as pq

    if path.suffix != ".parquet":
        raise UsageError(f"{path} is neither a folder nor a .tar nor a .parquet file")
    file = pq.ParquetFile(path)
    names = set(file.schema_arrow.names)
    text_name = next((name for name in ("text", "caption") if name in names), None)
    if "image" not in names or text_name is None:
        raise UsageError(f"{path} needs an image column and a text or caption column; it has {sorted(names)}")
    number = 0
    for batch in file.iter_batches(batch_size=256, columns=["image", text_name]):
        for row in batch.to_pylist():
            image = row["image"]["bytes"] if isinstance(row["image"], dict) else row["image"]
            yield f"{path.stem}/{number}", image, row[text_name] or ""
            number += 1


def _square(content: bytes, key: str) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(content)).convert("RGBA")
    except (UnidentifiedImageError, OSError, TypeError) as error:
        raise UsageError(f"{key} is not a picture that can be read ({error}); remove it or replace it") from error
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return white.convert("RGB").crop((left, top, left + side, top + side))

"""A user's own pictures: three layouts give the same set, and mistakes are named."""

import io
import json
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mulo_ray.errors import UsageError
from mulo_ray.training.image_sets import write_pictures
from mulo_ray.training.pictures import load_pictures

CAPTIONS = ["a red kite", "a blue  kite\n", "green"]
COLOURS = ["red", "blue", "green"]


def png(colour, size=(40, 20)):
    buffer = io.BytesIO()
    Image.new("RGBA", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def imagefolder(place):
    place.mkdir()
    lines = []
    for i, (caption, colour) in enumerate(zip(CAPTIONS, COLOURS, strict=True)):
        (place / f"{i}.png").write_bytes(png(colour))
        lines.append(json.dumps({"file_name": f"{i}.png", "text": caption}))
    (place / "metadata.jsonl").write_text("\n".join(lines) + "\n\n")
    return place


def webdataset(place):
    place.mkdir()
    with tarfile.open(place / "shard-0.tar", "w") as tar:
        for i, (caption, colour) in enumerate(zip(CAPTIONS, COLOURS, strict=True)):
            text = (".txt", caption.encode()) if i % 2 else (".json", json.dumps({"caption": caption}).encode())
            for suffix, content in ((".png", png(colour)), text):
                info = tarfile.TarInfo(f"{i:04d}{suffix}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return place


def parquet(place):
    images = [{"bytes": png(colour), "path": "x.png"} for colour in COLOURS]
    pq.write_table(pa.table({"image": images, "text": CAPTIONS}), place)
    return place


@pytest.mark.parametrize(("make", "name"), [(imagefolder, "folder"), (webdataset, "shards"), (parquet, "set.parquet")])
def test_every_layout_gives_the_same_set(tmp_path, make, name):
    assert write_pictures(str(make(tmp_path / name)), tmp_path / "data") == 3
    pictures = load_pictures(tmp_path / "data", 32)
    assert [record.name for record in pictures.records] == ["a red kite", "a blue kite", "green"]
    assert pictures.pixels[0, 16, 16].tolist() == [255, 0, 0]
    assert pictures.pixels[1, 0, 0].tolist() == [0, 0, 255], "the central square has no border"
    assert len(pictures.split("train")) == 3


def test_mistakes_are_named(tmp_path):
    with pytest.raises(UsageError, match="no such file or folder"):
        write_pictures(str(tmp_path / "none"), tmp_path / "data")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"neither metadata\.jsonl nor"):
        write_pictures(str(tmp_path / "empty"), tmp_path / "data")
    folder = imagefolder(tmp_path / "folder")
    (folder / "1.png").write_bytes(b"not a picture")
    with pytest.raises(UsageError, match=r"1\.png is not a picture"):
        write_pictures(str(folder), tmp_path / "data")
    (folder / "1.png").unlink()
    with pytest.raises(UsageError, match="line 2"):
        write_pictures(str(folder), tmp_path / "data")
    pq.write_table(pa.table({"pixels": [1]}), tmp_path / "odd.parquet")
    with pytest.raises(UsageError, match=r"needs an image column .* it has \['pixels'\]"):
        write_pictures(str(tmp_path / "odd.parquet"), tmp_path / "data")
    (tmp_path / "torn.tar").write_bytes(b"torn" * 400)
    with pytest.raises(UsageError, match="not a readable tar"):
        write_pictures(str(tmp_path / "torn.tar"), tmp_path / "data")

"""COCO captions: the three rules, keys, traps of the real file (docs/reports.md C1)."""

import json
import logging
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mulo_ray.errors import UsageError
from mulo_ray.prompts import read_prompts

REAL = Path(__file__).resolve().parents[3] / "shared" / "prompts" / "coco"

ANNOTATIONS = [
    {"id": 9, "image_id": 42, "caption": "same text"},
    {"id": 3, "image_id": 7, "caption": "seven"},
    {"id": 5, "image_id": 42, "caption": "same text"},
    {"id": 30, "image_id": 391895, "caption": " a longer one\nof two lines. "},
    {"id": 4, "image_id": 42, "caption": "short"},
    {"id": 31, "image_id": 391895, "caption": None},
]


def write(path: Path, annotations: list[dict[str, Any]]) -> str:
    images = [{"id": i} for i in (42, 7, 391895, 1000)]
    path.write_text(json.dumps({"images": images, "annotations": annotations}))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return write(tmp_path / "captions.json", ANNOTATIONS)


def test_longest_takes_one_caption_per_image(file: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mulo_ray"):
        prompts = read_prompts(file)
    assert [(p.key, p.text) for p in prompts] == [
        ("000000000042", "same text"),
        ("000000000007", "seven"),
        ("000000391895", "a longer one of two lines."),
    ]
    assert "annotation 5" in prompts[0].source  # a tie goes to the lowest id
    assert "6 captions of 3 images; 1 images have no caption" in caplog.text


def test_first_takes_the_lowest_annotation_id(file: str) -> None:
    assert [p.text for p in read_prompts(file, captions="first")] == ["short", "seven", "a longer one of two lines."]


def test_all_keeps_every_caption_under_its_own_key(file: str) -> None:
    prompts = read_prompts(file, captions="all")
    assert [p.key for p in prompts] == [
        "000000000042-4", "000000000042-5", "000000000042-9", "000000000007-3", "000000391895-30", "000000391895-31",
    ]  # fmt: skip
    assert [p.error is None for p in prompts] == [True] * 5 + [False]


@pytest.mark.parametrize("rule", ["longest", "first", "all"])
def test_shuffling_the_file_changes_no_caption_and_no_key(tmp_path: Path, file: str, rule: Any) -> None:
    """reports C1."""
    shuffled = ANNOTATIONS.copy()
    random.Random(1).shuffle(shuffled)
    other = write(tmp_path / "shuffled.json", shuffled)
    before, after = ({p.key: (p.text, bool(p.error)) for p in read_prompts(f, captions=rule)} for f in (file, other))
    assert before == after


def test_a_null_image_id_fails_its_row_only(tmp_path: Path) -> None:
    prompts = read_prompts(write(tmp_path / "c.json", [*ANNOTATIONS, {"id": 1, "image_id": None, "caption": "x"}]))
    assert [p.key for p in prompts if p.error] == ["(c.json annotation 7)"]


def test_the_official_zip(tmp_path: Path, file: str) -> None:
    path = tmp_path / "annotations_trainval2017.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(file, "annotations/captions_val2017.json")
        archive.writestr("annotations/captions_train2017.json", "{}")
    assert [p.text for p in read_prompts(str(path))] == [p.text for p in read_prompts(file)]
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(file, "annotations/captions_val2014.json")
    with pytest.raises(UsageError, match=r"several captions_val.*val2017.json, .*val2014.json"):
        read_prompts(str(path))


def test_other_json_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    path.write_text('{"images": [], "categories": []}')
    with pytest.raises(UsageError, match=r"no 'annotations' list.*holds 'images', 'categories'"):
        read_prompts(str(path))
    path.write_text('{"annotations": [{"id": 1, "bbox": []}]}')
    with pytest.raises(UsageError, match=r"has a 'caption' \(they hold 'id', 'bbox'\)"):
        read_prompts(str(path))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real COCO captions file is not beside the repository")
def test_the_real_file_gives_the_captions_of_the_common_protocol() -> None:
    """The longest, the first on a tie, annotation order; 740 captions padded, 21 broken over lines."""
    expected = [json.loads(line) for line in (REAL / "val2017_5k.jsonl").read_text().splitlines()]
    file = str(REAL / "captions_val2017.json")
    prompts = read_prompts(file)
    assert [p.key for p in prompts] == [f"{row['image_id']:012d}" for row in expected]
    assert [p.text.split() for p in prompts] == [row["caption"].split() for row in expected]
    assert [p.text for p in prompts if p.text != p.text.strip() or "\n" in p.text or p.error] == []
    firsts = read_prompts(file, captions="first", limit=100)
    assert [p.text.split() for p in firsts] == [row["first_caption"].split() for row in expected[:100]]
    everything = read_prompts(file, captions="all")
    assert len({p.key for p in everything}) == len(everything) == 25_014

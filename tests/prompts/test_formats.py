"""The same prompts out of every format, and what bad rows become (docs/reports.md C3, C4, C5)."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mulo_ray.errors import UsageError
from mulo_ray.prompts import read_prompts

FIVE = [
    ("a", "A red apple, cut in half"),
    ("b", 'He said "cheese", smiled,\nand left'),
    ("42", "caf\u00e9 \U0001f408 \u05d7\u05ea\u05d5\u05dc"),
    ("d/e", "a/b/../c"),
    ("e", "  padded  \u2028 kept  "),
]


def write_five(folder: Path, suffix: str) -> Path:
    path = folder / f"five{suffix}"
    records = [{"id": i, "caption": c} for i, c in FIVE]
    if suffix == ".json":
        path.write_text(json.dumps(records), encoding="utf-8")
    elif suffix == ".jsonl":
        path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(r, ensure_ascii=False).encode() for r in records))
    elif suffix == ".jsonl.gz":
        path.write_bytes(gzip.compress("\n".join(json.dumps(r) for r in records).encode()))
    elif suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path, row_group_size=2)
    else:
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",")
            writer.writerows([("id", "caption"), *FIVE])
    return path


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet"])
def test_every_format_gives_the_same_five_prompts(tmp_path: Path, suffix: str) -> None:
    """reports C5: commas, quotes, line ends, BOM and CRLF shift nothing."""
    prompts = read_prompts(str(write_five(tmp_path, suffix)))
    assert [(p.key, p.text, p.error) for p in prompts] == [(i, c, None) for i, c in FIVE]


def test_a_coco_file_gives_the_same_captions_with_line_ends_as_blanks(tmp_path: Path) -> None:
    annotations = [{"id": n, "image_id": n, "caption": c} for n, (_, c) in enumerate(FIVE)]
    path = tmp_path / "coco.json"
    path.write_text(json.dumps({"images": [], "annotations": annotations}))
    assert [p.text for p in read_prompts(str(path))] == [c.strip().replace("\n", " ") for _, c in FIVE]


def test_text_survives_character_for_character(tmp_path: Path) -> None:
    """reports C2: long, emoji, slashes, controls, right-to-left, device names, leading dash."""
    texts = ["x" * 10_000, "\U0001f98a" * 80, "a/b/../c", "new\nline", "tab\there", "nul\0here", "CON", "-rf \u202eabc"]
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": t}) for t in texts))
    prompts = read_prompts(str(path))
    assert [p.text for p in prompts] == texts
    assert [p.key for p in prompts] == [f"{n:08d}" for n in range(8)]
    assert not any(p.error for p in prompts)


def test_blank_captions_fail_alone(tmp_path: Path) -> None:
    """reports C3: five blank ones among five good ones."""
    blank = ["", "   ", "\n", "\u200b\ufeff", "\u3164\0"]
    path = tmp_path / "blank.jsonl"
    path.write_text("".join(json.dumps({"text": t}) + "\n" for pair in zip(blank, "abcde", strict=True) for t in pair))
    prompts = read_prompts(str(path))
    assert [p.error is None for p in prompts] == [False, True] * 5
    assert "line 1 " in str(prompts[0].error)
    assert "blank" in str(prompts[0].error)


def test_bad_json_lines_fail_with_their_line_number(tmp_path: Path) -> None:
    """reports C5: a bad line is one failure; ray#47693: a list is no caption."""
    path = tmp_path / "bad.jsonl"
    lines = ['{"id": 1, "caption": "ok"}', '{"id": 2, "capt', '{"id": 3, "words": "x"}', '{"id": 4, "caption": ["a"]}']
    path.write_text("\n".join([*lines, "", '{"id": 5, "caption": "\\ud83d"}', '{"caption": "no id"}', "7"]))
    prompts = read_prompts(str(path))
    errors = [p.error or "" for p in prompts]
    assert [bool(e) for e in errors] == [False, True, True, True, True, True, True]
    for error, words in zip(
        errors[1:],
        ["line 2: not valid JSON", "no 'caption'; the row has 'id', 'words'", "is a list", "surrogate", "'id' is None",
         "line 8: expected a JSON object"],
        strict=True,
    ):  # fmt: skip
        assert words in error


def test_null_captions_and_null_ids_of_parquet(tmp_path: Path) -> None:
    """reports C4: a row group of nulls; integer ids stay 42 beside a null."""
    path = tmp_path / "nulls.parquet"
    ids = pa.array([42, 43, None, 45, 46, 47], pa.int64())
    captions = pa.array([None, None, "c", "d", "e", "f"], pa.string())
    pq.write_table(pa.table({"id": ids, "caption": captions}), path, row_group_size=2)
    prompts = read_prompts(str(path))
    assert [p.key for p in prompts] == ["42", "43", "(nulls.parquet row 3)", "45", "46", "47"]
    assert [p.error is None for p in prompts] == [False, False, False, True, True, True]
    assert "nulls.parquet row 1 (id '42'): the caption is null" in str(prompts[0].error)
    assert "row 3" in str(prompts[2].error)


def test_float_ids_made_by_pandas_read_as_integers(tmp_path: Path) -> None:
    path = tmp_path / "float.parquet"
    pq.write_table(pa.table({"key": [42.0, 43.5], "caption": ["a", "b"]}), path)
    assert [p.key for p in read_prompts(str(path))] == ["42", "43.5"]


def test_a_lone_quote_in_tsv_swallows_nothing(tmp_path: Path) -> None:
    """reports C5: TSV writers that never quote."""
    path = tmp_path / "lone.tsv"
    path.write_text('Prompt\tNote\n"half a quote\tx\na 5" pipe\ty\n"whole" and more\tz\n')
    assert [p.text for p in read_prompts(str(path))] == ['"half a quote', 'a 5" pipe', '"whole" and more']


def test_csv_rows_of_another_width_fail(tmp_path: Path) -> None:
    """rom1504/img2dataset#318: an unquoted comma must not shift columns silently."""
    path = tmp_path / "wide.csv"
    path.write_text("id,caption\n1,fine\n2,one, two\n3\n")
    assert [p.error is None for p in read_prompts(str(path))] == [True, False, False]
    path.write_text("caption\none, two\nthree\n")
    assert [p.text for p in read_prompts(str(path))] == ["one, two", "three"]


def test_plain_text_numbers_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes(b"first\r\n\r\nthird\n\n\n")
    prompts = read_prompts(str(path))
    assert [(p.key, p.text) for p in prompts] == [("00000000", "first"), ("00000001", ""), ("00000002", "third")]
    assert [p.error is None for p in prompts] == [True, False, True]
    assert [p.text for p in read_prompts(str(path), limit=1)] == ["first"]


def test_a_missing_column_is_one_error_with_the_columns_found(tmp_path: Path) -> None:
    """reports C5."""
    path = tmp_path / "columns.jsonl"
    path.write_text('{"url": 1}\n{"alt": "x"}\n')
    with pytest.raises(UsageError, match=r"'caption' or 'prompt' or 'text'; the columns found are 'url', 'alt'"):
        read_prompts(str(path))


def test_duplicate_ids_name_both_places(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text('{"id": 42, "caption": "a"}\n{"id": 1, "caption": "b"}\n{"id": "42", "caption": "c"}\n')
    with pytest.raises(UsageError, match=r"id '42' twice: at twice.jsonl line 1 and at twice.jsonl line 3"):
        read_prompts(str(path))

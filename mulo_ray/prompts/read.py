"""The one way in: picks the reader of a captions file by its suffix.

Formats: COCO captions .json or the official annotations .zip, a .json array of objects, .jsonl, .txt, .csv, .tsv,
.parquet; text formats also with .gz. Captions outside COCO files are kept character for character.
Knows neither models nor output.
"""

import io
import json
from collections.abc import Callable
from typing import BinaryIO

from mulo_ray.errors import UsageError
from mulo_ray.prompts.coco import prompts_from_coco
from mulo_ray.prompts.coco_zip import captions_in_zip
from mulo_ray.prompts.delimited import prompts_from_csv, prompts_from_tsv
from mulo_ray.prompts.jsonl import prompts_from_array, prompts_from_jsonl
from mulo_ray.prompts.parquet import prompts_from_parquet
from mulo_ray.prompts.plain_text import prompts_from_text
from mulo_ray.prompts.rows import CaptionRule, check_unique
from mulo_ray.prompts.source import open_source, read_text
from mulo_ray.types import Prompt


def _from_json(text: str, name: str, captions: CaptionRule) -> list[Prompt]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not valid JSON: {error}; a file of one object per line is named .jsonl") from error
    if isinstance(document, dict):
        return prompts_from_coco(document, name, captions)
    if isinstance(document, list) and document:
        return prompts_from_array(document, name)
    raise UsageError(f"{name} must hold a COCO captions object or an array of objects, got {str(document)[:40]!r}")


def _from_zip(stream: BinaryIO, name: str, captions: CaptionRule) -> list[Prompt]:
    data, member = captions_in_zip(stream, name)
    return _from_json(read_text(io.BytesIO(data), member, gzipped=False), member, captions)


TextReader = Callable[[str, str, CaptionRule], list[Prompt]]
BinaryReader = Callable[[BinaryIO, str, CaptionRule], list[Prompt]]

TEXT_READERS: dict[str, TextReader] = {
    ".json": _from_json,
    ".jsonl": lambda text, name, _: prompts_from_jsonl(text, name),
    ".txt": lambda text, name, _: prompts_from_text(text, name),
    ".csv": lambda text, name, _: prompts_from_csv(text, name),
    ".tsv": lambda text, name, _: prompts_from_tsv(text, name),
}
BINARY_READERS: dict[str, BinaryReader] = {
    ".zip": _from_zip,
    ".parquet": lambda stream, name, _: prompts_from_parquet(stream, name),
}
SUFFIXES = (*TEXT_READERS, *BINARY_READERS, *(f"{suffix}.gz" for suffix in TEXT_READERS))


def read_prompts(uri: str, *, captions: CaptionRule = "longest", limit: int | None = None) -> list[Prompt]:
    """The prompts of a captions file (local path or fsspec URI), in a fixed order; the first `limit` of them.

    `captions` picks among several captions per image and matters to COCO files only. A row that cannot be used is
    a prompt with `error` set. Raises UsageError for anything wrong with the file as a whole, and for a key that
    two of the returned prompts share.
    """
    name = uri.rstrip("/").rpartition("/")[2]
    lowered = name.lower()
    suffix = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if lowered.endswith(s)), None)
    with open_source(uri) as stream:  # first: a missing file or a directory is the better message
        if suffix is None:
            raise UsageError(f"captions file {uri!r} has an unknown suffix; allowed are {', '.join(SUFFIXES)}")
        if suffix in BINARY_READERS:
            prompts = BINARY_READERS[suffix](stream, name, captions)
        else:
            plain = suffix.removesuffix(".gz")
            prompts = TEXT_READERS[plain](read_text(stream, name, gzipped=plain != suffix), name, captions)
    prompts = prompts[:limit]
    check_unique(prompts, name)
    return prompts

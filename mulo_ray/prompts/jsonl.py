"""JSON lines, and a JSON array of objects: one object per prompt.

Knows no column: rows.py decides which one is the caption.
"""

import json
from typing import Any

from mulo_ray.prompts.rows import Row, prompts_from_rows
from mulo_ray.prompts.source import lines_of
from mulo_ray.types import Prompt


def prompts_from_jsonl(text: str, name: str) -> list[Prompt]:
    """One prompt per non-empty line. A line that is no JSON object is one failed prompt with its line number."""
    numbered = [(n, line) for n, line in enumerate(lines_of(text), start=1) if line.strip()]
    return prompts_from_rows([_row(line, f"{name} line {n}") for n, line in numbered], name)


def prompts_from_array(items: list[Any], name: str) -> list[Prompt]:
    """One prompt per item of a parsed JSON array."""
    return prompts_from_rows([_object_row(item, f"{name} item {n}") for n, item in enumerate(items, start=1)], name)


def _row(line: str, place: str) -> Row:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Row(place=place, error=f"not valid JSON: {error}")
    return _object_row(item, place)


def _object_row(item: Any, place: str) -> Row:
    if isinstance(item, dict):
        return Row(place=place, columns=item)
    return Row(place=place, error=f"expected a JSON object, got a {type(item).__name__}")

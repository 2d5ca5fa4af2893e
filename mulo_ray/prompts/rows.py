"""Turns rows of named columns, from any format, into prompts: which column is which, keys, bad rows.

Knows no file format: a reader hands over rows with their places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mulo_ray.errors import UsageError
from mulo_ray.prompts.usable import caption_error, id_text
from mulo_ray.types import Prompt

CaptionRule = Literal["longest", "first", "all"]
CAPTION_COLUMNS = ("caption", "prompt", "text")
ID_COLUMNS = ("id", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record as read; `columns` is None when it could not be parsed, and `error` then says why."""

    place: str  # "file.jsonl line 12"
    columns: Mapping[str, Any] | None = None
    error: str = ""


def prompts_from_rows(rows: Sequence[Row], name: str) -> list[Prompt]:
    """One prompt per row, in order; the key is the id column, else the row's number from 0 in 8 digits.

    A row that cannot be used becomes a prompt with its reason. Raises UsageError when no row has a caption column.
    """
    columns = list(dict.fromkeys(column for row in rows for column in row.columns or ()))
    caption_column = _pick(columns, CAPTION_COLUMNS)
    id_column = _pick(columns, ID_COLUMNS)
    if caption_column is None:
        found = f"the columns found are {', '.join(map(repr, columns))}" if columns else "no row of it can be parsed"
        reason = next((f" ({row.place}: {row.error})" for row in rows if row.error), "")
        raise UsageError(f"{name} has no column named {' or '.join(map(repr, CAPTION_COLUMNS))}; {found}{reason}")
    return [_prompt(row, number, caption_column, id_column) for number, row in enumerate(rows)]


def failed_key(place: str) -> str:
    """The key of a row that has no usable id: its place, in a form that ids do not take."""
    return f"({place})"


def check_unique(prompts: Sequence[Prompt], name: str) -> None:
    """Raise UsageError naming the first two places that share a key: one image would overwrite the other."""
    places: dict[str, str] = {}
    for prompt in prompts:
        if prompt.key in places:
            raise UsageError(
                f"{name} uses the id {prompt.key!r} twice: at {places[prompt.key]} and at {prompt.source}; "
                "make ids unique, or leave the column out to number the rows"
            )
        places[prompt.key] = prompt.source


def _prompt(row: Row, number: int, caption_column: str, id_column: str | None) -> Prompt:
    if row.columns is None:
        key = f"{number:08d}" if id_column is None else failed_key(row.place)
        return Prompt(key=key, text="", source=row.place, error=f"{row.place}: {row.error}")
    key = f"{number:08d}"
    error = None
    if id_column is not None:
        identity = id_text(row.columns.get(id_column))
        key = failed_key(row.place) if identity is None else identity
        if identity is None:
            error = f"the {id_column!r} is {row.columns.get(id_column)!r}; give the row a text or a number as its id"
    value = row.columns.get(caption_column)
    if error is None and caption_column not in row.columns:
        error = f"there is no {caption_column!r}; the row has {', '.join(map(repr, row.columns)) or 'no columns'}"
    error = error or caption_error(value)
    text = value if isinstance(value, str) and error is None else ""
    return Prompt(key=key, text=text, source=row.place, error=error and f"{row.place} (id {key!r}): {error}")


def _pick(columns: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The first wanted name that is present, capitals ignored."""
    return next((c for name in wanted for c in columns if c.strip().lower() == name), None)

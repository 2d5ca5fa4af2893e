"""Decides whether a caption, and an id, can be used, and says why not.

Knows no file: the caller adds the place.
"""

import unicodedata
from typing import Any

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # fillers that Unicode files under letters


def is_blank(text: str) -> bool:
    """True when nothing of `text` can be seen: spaces, controls, zero-width marks, fillers."""
    return all(c in _INVISIBLE_LETTERS or unicodedata.category(c) in _INVISIBLE_CATEGORIES for c in text)


def caption_error(value: Any) -> str | None:
    """Why `value` is no caption (a sentence without its place), or None when it is one."""
    if value is None:
        return "the caption is null; give it a text"
    if not isinstance(value, str):
        return f"the caption is a {type(value).__name__}, not a text: {str(value)[:60]!r}"
    if is_blank(value):
        return f"the caption is blank: {value[:20]!r}; give it a text"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"the caption holds half a surrogate pair at character {error.start + 1}, which no text file can store"
    return None


def id_text(value: Any) -> str | None:
    """The lasting text form of an id (42 and 42.0 are both "42"), or None when it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else (repr(value) if value == value else None)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and not is_blank(value):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return None
        return value
    return None

"""Prompt keys to object names and back: a safe alphabet, one-to-one, never from the prompt's text.

Kept as they are: a-z, 0-9 and "-" (not in front). Every other byte of the key's UTF-8 form is "_" and two hex
digits, capitals included, since some disks do not tell them apart. Knows no store.
"""

import hashlib
import re

_ESCAPE = re.compile(rb"[^a-z0-9-]")
_LONGEST = 150  # characters of a safe key: with folder, sample and suffix the name stays under 200 bytes
_CUT = 80
_HASH_MARK = "_h"  # no hex digit follows "_" here, so it can be no escape


def object_name(key: str, sample: int, suffix: str = "png") -> str:
    """The name of one image: `images/<safe key>-<sample>.<suffix>`, under 200 bytes, without another dot."""
    return f"images/{safe_key(key)}-{sample}.{suffix}"


def key_of(name: str) -> tuple[str, int] | None:
    """(key, sample) of an object name; None for other names and for keys so long that they were cut."""
    match = re.fullmatch(r"images/(.+)-(\d+)\.[a-z0-9]+", name)
    if match is None or _HASH_MARK in match[1]:
        return None
    data = re.sub(rb"_([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), match[1].encode())
    try:
        key = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return (key, int(match[2])) if safe_key(key) == match[1] else None


def safe_key(key: str) -> str:
    """`key` in the safe alphabet; beyond 150 characters its beginning and 32 digits of its SHA-256."""
    if not key:
        raise ValueError("an empty prompt key has no object name; a prompt without an id is a failed row")
    data = key.encode("utf-8", "surrogatepass")
    safe = _ESCAPE.sub(lambda m: b"_%02x" % m[0][0], data).decode()
    if safe.startswith("-"):  # commands would read the file name as an option
        safe = f"_2d{safe[1:]}"
    if len(safe) <= _LONGEST:
        return safe
    cut = safe[:_CUT]
    while "_" in cut[-2:]:  # never through the middle of an escape
        cut = cut[:-1]
    return f"{cut}{_HASH_MARK}{hashlib.sha256(data).hexdigest()[:32]}"

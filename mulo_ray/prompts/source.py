"""Opens a captions file at a local path or any fsspec URI, or says in one sentence why it cannot.

Knows no format: it hands out bytes and text.
"""

import codecs
import difflib
import gzip
import os
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import fsspec

from mulo_ray.errors import UsageError


def open_source(uri: str) -> BinaryIO:
    """Open `uri` for reading; a leading `~` is expanded and the rest is literal.

    Raises UsageError: no such file (with the nearest name in that folder), a directory, an empty file, an
    unknown scheme, a store that cannot be reached.
    """
    scheme, separator, _ = uri.partition("://")
    local = not separator or scheme in ("file", "local")
    path = os.path.expanduser(uri.removeprefix(f"{scheme}://") if separator else uri) if local else uri
    try:
        filesystem_class = fsspec.get_filesystem_class("file" if local else scheme)
        filesystem = filesystem_class(**filesystem_class._get_kwargs_from_urls(path))
        inner = filesystem._strip_protocol(path)
        info = filesystem.info(inner)
    except FileNotFoundError:
        raise UsageError(f"captions file {uri!r} does not exist{_nearest(path) if local else ''}") from None
    except ImportError as error:
        raise UsageError(f"captions file {uri!r} cannot be read: {error} (pip install what it names)") from error
    except ValueError as error:
        raise UsageError(f"captions file {uri!r} cannot be read: {error}") from error
    except Exception as error:  # each filesystem has errors of its own; all mean the same to the user
        raise UsageError(f"captions file {uri!r} cannot be reached: {type(error).__name__}: {error}") from error
    if info["type"] == "directory":
        raise UsageError(f"captions file {uri!r} is a directory; name one file in it")
    if info.get("size") == 0:
        raise UsageError(f"captions file {uri!r} is empty")
    try:
        return cast(BinaryIO, filesystem.open(inner, "rb"))
    except OSError as error:
        raise UsageError(f"captions file {uri!r} cannot be opened: {error}") from error


def read_text(stream: BinaryIO, name: str, gzipped: bool) -> str:
    """The whole file as text: UTF-8, a byte order mark removed. Line ends stay as they are.

    Raises UsageError for broken gzip data, for text that is not UTF-8 and for a file of nothing but blanks.
    """
    data = stream.read()
    if gzipped:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{name} is not a whole gzip file: {error}") from error
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{name} is not UTF-8 text: byte 0x{data[error.start]:02x} on line {line}; convert it to UTF-8 first"
        ) from error
    if not text.strip():
        raise UsageError(f"{name} is empty")
    return text


def lines_of(text: str) -> list[str]:
    """Lines ended by LF or CRLF only: captions may hold the other characters that `splitlines` breaks at."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _nearest(path: str) -> str:
    folder = Path(path).parent
    if not folder.is_dir():
        return f", nor does its folder {str(folder)!r}"
    close = difflib.get_close_matches(Path(path).name, [p.name for p in folder.iterdir()], n=1, cutoff=0.5)
    return f"; did you mean {str(folder / close[0])!r}?" if close else ""

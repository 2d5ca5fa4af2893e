"""Fetches COCO's official annotations zip once into the user's cache.

Knows no caption: read.py reads the zip.
"""

import logging
import os
import tempfile
import zipfile
from pathlib import Path

import fsspec

from mulo_ray.errors import UsageError

log = logging.getLogger(__name__)

ANNOTATIONS_URL = "http://images.cocodataset.org/annotations/annotations_trainval2017.zip"
_ADVICE = "pass --captions-file with COCO's captions_val2017.json or its annotations zip"


def coco_val2017(cache_dir: str | Path | None = None, url: str = ANNOTATIONS_URL) -> str:
    """The local path of the annotations zip (about 240 MB), downloaded on the first call.

    `cache_dir` defaults to mulo_ray in the user's cache folder. The file appears under its name only when whole.
    Raises UsageError when it cannot be fetched.
    """
    folder = Path(cache_dir) if cache_dir is not None else _user_cache() / "mulo_ray"
    target = folder / url.rpartition("/")[2]
    if target.is_file():
        return str(target)
    log.info("fetching %s to %s (once)", url, target)
    part: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=f"{target.name}.", suffix=".part")
        os.close(handle)
        part = Path(name)
        fsspec.filesystem("http", client_kwargs=_client_kwargs()).get_file(url, str(part))
        if not zipfile.is_zipfile(part):
            raise UsageError(f"{url} did not answer with a whole zip file ({part.stat().st_size} bytes); {_ADVICE}")
        os.replace(part, target)
    except UsageError:
        raise
    except Exception as error:  # DNS, sockets, HTTP, disk: each library has its own; all end the same way
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise UsageError(f"COCO's captions could not be fetched from {url} ({reason}); {_ADVICE}") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    return str(target)


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _client_kwargs() -> dict[str, object]:
    import aiohttp  # heavy, and needed for a download only

    return {"timeout": aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)}

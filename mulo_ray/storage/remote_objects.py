"""Objects in a store behind fsspec: one PUT each, create-only where the store can, no cached listing.

Knows no retry and no error sentences: the filesystem's errors pass, but "it exists" is always FileExistsError.
"""

import contextlib
import errno
import inspect
import logging
from typing import Any

from fsspec.spec import AbstractFileSystem

from mulo_ray.storage.retry import http_status

log = logging.getLogger(__name__)

_IGNORES_CREATE_ONLY: set[str] = set()  # roots whose server took a second create, found by the probe
_WARNED: set[str] = set()


class RemoteObjects:
    """The backend for every scheme but local files."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self.filesystem = filesystem
        self.root = root

    def write(self, name: str, data: bytes) -> None:
        self.filesystem.pipe_file(self._path(name), data)

    def write_new(self, name: str, data: bytes) -> None:
        """FileExistsError when the name is taken. EINVAL and 412 mean that too, if the object is there."""
        if not self.is_create_only():
            if self.exists(name):
                raise FileExistsError(name)
            return self.write(name, data)
        try:
            self.filesystem.pipe_file(self._path(name), data, mode="create")
        except FileExistsError:
            raise
        except OSError as error:
            if (error.errno == errno.EINVAL or http_status(error) == 412) and self.exists(name):
                raise FileExistsError(name) from error
            raise
        return None

    def is_create_only(self) -> bool:
        """Whether a create can be trusted to have one winner; warns once per root when not."""
        able = _knows_create_only(self.filesystem) and self.root not in _IGNORES_CREATE_ONLY
        if not able and self.root not in _WARNED:
            _WARNED.add(self.root)
            log.warning("%s cannot create objects exclusively: two jobs started at once may both write it", self.root)
        return able

    def distrust_create_only(self) -> None:
        """Remember that this store answered a second create with success."""
        _IGNORES_CREATE_ONLY.add(self.root)
        self.is_create_only()

    def read(self, name: str) -> bytes:
        data = self.filesystem.cat_file(self._path(name))
        return bytes(data)

    def exists(self, name: str) -> bool:
        """By `info`: fsspec's own `exists` answers False for every error."""
        try:
            return bool(self.filesystem.info(self._path(name))["type"] == "file")
        except FileNotFoundError:
            return False

    def names(self, prefix: str) -> dict[str, int]:
        """Objects below the folder `prefix` with sizes, from one fresh (paged) listing."""
        self.filesystem.invalidate_cache()
        found = self.filesystem.find(self._path(prefix).rstrip("/"), detail=True)
        start = f"{self.root}/"
        return {
            path.removeprefix(start): int(info.get("size") or 0)
            for path, info in found.items()
            if info.get("type") == "file" and path.startswith(start) and not path.endswith("/")
        }

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.rm_file(self._path(name))

    def sweep(self) -> int:
        return 0  # a PUT leaves nothing behind

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"


def _knows_create_only(filesystem: Any) -> bool:
    """fsspec's inherited fallback asks `exists` first, which two racing clients both pass."""
    if type(filesystem).pipe_file is not AbstractFileSystem.pipe_file and not hasattr(filesystem, "_pipe_file"):
        return "mode" in inspect.signature(filesystem.pipe_file).parameters
    method = getattr(filesystem, "_pipe_file", None)
    return method is not None and "mode" in inspect.signature(method).parameters

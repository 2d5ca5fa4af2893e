"""A folder of small files at a local path or any fsspec URI: whole files in, whole files out. Knows no training."""

import os
from pathlib import Path

import fsspec

from mulo_ray.errors import UsageError


class Folder:
    """Files replaced in one step: a rename where the place is local, one PUT where it is not."""

    def __init__(self, uri: str | Path) -> None:
        self.uri = str(uri)
        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.uri)
        except (ValueError, ImportError) as error:
            raise UsageError(
                f"cannot keep checkpoints in {self.uri!r} ({error}); give a local folder or a URI such as s3://bucket/run"
            ) from error
        self._local = "file" in self._fs.protocol
        if self._local:
            os.makedirs(self._root, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None where there is none."""
        try:
            content: bytes = self._fs.cat_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Replace a file; a kill leaves the old one or the new one."""
        path = f"{self._root}/{name}"
        if not self._local:
            self._fs.pipe_file(path, content)
            return
        part = f"{path}.part"
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    def append(self, name: str, line: str) -> None:
        """Add a line to a text file; object stores rewrite the file, so keep it small."""
        if self._local:
            with open(f"{self._root}/{name}", "a", encoding="utf-8") as file:
                file.write(line + "\n")
        else:
            self.write(name, (self.read(name) or b"") + line.encode() + b"\n")

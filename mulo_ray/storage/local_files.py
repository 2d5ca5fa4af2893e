"""Objects as files under a directory, each appearing under its name only when whole.

Temporary files are hidden beside their target; listings skip them and `sweep` removes those of dead writers.
Knows no retry and no error sentences: OSError passes.
"""

import contextlib
import errno
import os
import re
import time
import uuid
from pathlib import Path

from mulo_ray.storage.identity import pid_alive, this_machine

_TEMPORARY = re.compile(r"^\..*\.([0-9a-f]{12})-(\d+)-[0-9a-f]{8}\.tmp$")
_FOREIGN_LEFTOVER_S = 3600.0  # a writer on another host cannot be asked; no write takes an hour
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


class LocalFiles:
    """The backend for paths and file:// URIs."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def write(self, name: str, data: bytes) -> None:
        """Temporary file, flush to disk, rename: a crash leaves the old file or the new one."""
        target = self.root / name
        temporary = self._write_temporary(target, data)
        try:
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def write_new(self, name: str, data: bytes) -> None:
        """As `write`, but FileExistsError when the name is taken: a hard link is refused then, a rename is not."""
        target = self.root / name
        temporary = self._write_temporary(target, data)
        try:
            os.link(temporary, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with open(target, "xb") as file:  # no hard links here: exclusive, though not all at once
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def names(self, prefix: str) -> dict[str, int]:
        """Files below the folder `prefix`, with sizes; hidden files and folders are not objects."""
        found: dict[str, int] = {}
        for folder, folders, files in os.walk(self.root / prefix):
            folders[:] = [f for f in folders if not f.startswith(".")]
            for file in files:
                path = Path(folder, file)
                if not file.startswith("."):
                    with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                        found[path.relative_to(self.root).as_posix()] = path.stat().st_size
        return found

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def sweep(self) -> int:
        """Remove temporary files of writers that died; returns how many."""
        removed = 0
        for folder, _, files in os.walk(self.root):
            for match in filter(None, map(_TEMPORARY.match, files)):
                path = Path(folder, match.string)
                with contextlib.suppress(FileNotFoundError):
                    ours = match[1] == this_machine()
                    old = time.time() - path.stat().st_mtime > _FOREIGN_LEFTOVER_S
                    if (ours and not pid_alive(int(match[2]))) or (not ours and old):
                        path.unlink()
                        removed += 1
        return removed

    def _write_temporary(self, target: Path, data: bytes) -> Path:
        unique = f"{this_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        temporary = target.with_name(f".{target.name}.{unique}.tmp")
        try:
            file = open(temporary, "xb")
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            file = open(temporary, "xb")
        try:
            with file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return temporary

"""The folder of a local Ray: it goes with its driver, also when that one is killed.

A driver marks its folder with a file that holds its pid and that it keeps locked; the kernel drops the lock of a
process that ends in any way. So a marked folder without a lock belongs to nobody. Knows no Ray.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

PREFIX = "mulo"
MARK = "driver.pid"


class RayFolder:
    """A new folder with a short path (socket names end at 107 bytes); making one removes those of killed drivers."""

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())
        _remove_orphans(parent)
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        unmarked = Path(self.path, "unmarked")
        self._mark = unmarked.open("w")  # stays open for as long as the driver lives
        fcntl.flock(self._mark, fcntl.LOCK_EX)
        self._mark.write(f"{os.getpid()}\n")
        self._mark.flush()
        unmarked.rename(Path(self.path, MARK))  # a mark is locked from the first moment that others can see it

    def remove(self) -> None:
        """Remove it with all that is in it, and end processes that still live in it."""
        self._mark.close()
        _end_processes_in(self.path)
        for _ in range(10):  # Ray's last processes may still write a log line while their folder goes
            shutil.rmtree(self.path, ignore_errors=True)
            if not os.path.exists(self.path):
                return
            time.sleep(0.1)


def _remove_orphans(parent: Path) -> None:
    for mark in parent.glob(f"{PREFIX}*/{MARK}"):
        folder = mark.parent
        with contextlib.suppress(OSError):  # another user's, or gone since it was listed, or locked
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with mark.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _end_processes_in(folder: str) -> None:
    """A Ray that failed to start leaves servers behind; all of them have the folder in their command lines."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"{folder}/".encode() in command.read_bytes():
                os.kill(int(command.parent.name), signal.SIGKILL)

"""The processes of the Ray that this process started, by the titles that Ray gives its workers."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

DECODING = "ray::TargetActor.advance"
TITLES = {
    "drafter": "ray::DrafterActor",
    "target": "ray::TargetActor",
    "group": "ray::MapWorker(MapBatches(Group))",
    "writer": "ray::MapWorker(MapBatches(Writer))",
}


def workers(kind: str) -> list[int]:
    """Pids of the workers of one kind."""
    return titled(TITLES[kind])


def titled(start: str) -> list[int]:
    """Pids of processes whose title begins so, of this process's own Ray only."""
    return [pid for pid in _descendants(os.getpid()) if _title(pid).startswith(start)]


def kill_one(kind: str) -> int:
    """SIGKILL, as the kernel does when memory runs out; the pid."""
    wait_until(lambda: bool(workers(kind)), f"no {kind} to kill")
    pid = workers(kind)[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def wait_until(done: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it ended meanwhile
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""

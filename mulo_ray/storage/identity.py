"""Who a process is, so that another one can tell whether it still lives: host, boot, pid and start time.

A pid alone is not enough: it is reused, and another container or machine has its own. Knows no lease.
"""

import contextlib
import functools
import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """`machine` names one boot of one pid namespace: equal strings mean that the pids can be compared."""

    host: str
    machine: str
    pid: int
    started: str  # in the kernel's clock ticks since boot; empty where the system does not tell


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    pid = os.getpid()
    return ProcessIdentity(host=socket.gethostname(), machine=this_machine(), pid=pid, started=_stat(pid)[1])


def is_alive(identity: ProcessIdentity) -> bool | None:
    """True or False when it can be known here, None for a process of another machine or container."""
    if identity.machine != this_machine():
        return None
    if not pid_alive(identity.pid):
        return False
    started = _stat(identity.pid)[1]
    return not (started and identity.started and started != identity.started)


def pid_alive(pid: int) -> bool:
    """Whether a process with this number runs here (a zombie does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, under another user
    return _stat(pid)[0] not in ("Z", "X")


@functools.cache
def this_machine() -> str:
    """A short tag of this host, boot and pid namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # not Linux: host and pid must do
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _stat(pid: int) -> tuple[str, str]:
    """(state letter, start time) of a process, both empty where /proc does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", ""
    fields = text.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    return fields[0], fields[19]

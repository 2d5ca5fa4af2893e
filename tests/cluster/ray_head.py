"""A Ray head of the test's own: free ports, a temporary folder, stopped through its process handle."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

PORTS = (
    *("port", "dashboard-port", "dashboard-agent-listen-port", "dashboard-agent-grpc-port"),
    *(
        "metrics-export-port",
        "node-manager-port",
        "object-manager-port",
        "runtime-env-agent-port",
        "ray-client-server-port",
    ),
)


def ray_environment(folder: Path) -> dict[str, str]:
    """The environment of a process that must find no other cluster and leave no token behind."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ours = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder), "HOME": str(folder)}
    ours["RAY_worker_niceness"] = "0"  # by default workers come after every other process, which starves them
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # `python` of a submitted command
    return kept | ours | {"OMP_NUM_THREADS": "1", "PATH": path}


@contextlib.contextmanager
def ray_head(folder: Path, num_cpus: int = 4, wait_s: float = 60) -> Iterator[str]:
    """Start a head and yield its dashboard address; `folder` must have a short path (socket names)."""
    ports = dict(zip(PORTS, _free_ports(len(PORTS)), strict=True))
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--node-ip-address=127.0.0.1"]
    options = [f"--{name}={port}" for name, port in ports.items()]
    options += [f"--num-cpus={num_cpus}", f"--temp-dir={folder}", "--object-store-memory=104857600"]
    options.append("--disable-usage-stats")
    with (folder / "head.log").open("wb") as log:
        head = subprocess.Popen(
            [*ray, *options], stdout=log, stderr=log, env=ray_environment(folder), start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{ports['dashboard-port']}"
        _wait_for(address, head, folder / "head.log", wait_s)
        yield address
    finally:
        _stop(head)


def _stop(head: subprocess.Popen[bytes]) -> None:
    """`ray start --block` takes its own processes down; where it is too slow, its own session is killed."""
    head.terminate()
    try:
        head.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(head.pid, signal.SIGKILL)
        head.wait(10)


def _wait_for(address: str, head: subprocess.Popen[bytes], log: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if head.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/version", timeout=2):
            return
        time.sleep(0.3)
    raise TimeoutError(f"the Ray head did not answer at {address}:\n{log.read_text(errors='replace')[-2000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports

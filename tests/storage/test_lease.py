"""One live driver per output (docs/reports.md D7): two processes, a killed one, one that hangs, another machine."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulo_ray.errors import ResumeError, StorageError
from mulo_ray.storage import Lease, Store
from mulo_ray.storage.identity import is_alive, this_process

HOLD = """
    import sys, time
    from mulo_ray.storage import Lease, Store
    with Lease(Store(sys.argv[1]), ttl_s=5, heartbeat_s=0.1, say=lambda line: print(line, flush=True)):
        print("held", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


@pytest.fixture
def hold(request: pytest.FixtureRequest) -> Callable[[Store], "subprocess.Popen[str]"]:
    def start(store: Store) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", textwrap.dedent(HOLD), store.uri]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        request.addfinalizer(lambda: (process.kill(), process.communicate()))
        assert process.stdout is not None
        for line in process.stdout:
            if line == "held\n":
                return process
        raise AssertionError("the holder did not get its lease")

    return start


def quick(store: Store, **more: Any) -> Lease:
    return Lease(store, **{"ttl_s": 0.6, "heartbeat_s": 0.1, "say": lambda line: None, **more})


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_clean_release_leaves_nothing(kind: str, request: pytest.FixtureRequest, store: Store) -> None:
    if kind == "s3":
        store = Store(request.getfixturevalue("s3_uri"))
    for _ in range(2):
        with quick(store, ttl_s=5) as lease:
            lease.check()
            assert [name for name in store.list("lease/") if "beat" not in name] == ["lease/lease-000001.json"]
            time.sleep(0.3)
            lease.check()
        assert store.list("lease/") == {}


def test_a_live_driver_refuses_at_once_and_a_killed_one_is_taken_over_at_once(
    store: Store, hold: Callable[[Store], "subprocess.Popen[str]"]
) -> None:
    """reports D7: with host, pid and age; SIGKILL releases nothing, yet nobody waits."""
    owner = hold(store)
    began = time.monotonic()
    with pytest.raises(
        ResumeError, match=rf"process {owner.pid} on \S+, started \d+ s ago \(last heartbeat \d+ s ago\)"
    ):
        quick(store).__enter__()
    owner.send_signal(signal.SIGKILL)
    said: list[str] = []
    with Lease(store, say=said.append) as lease:
        lease.check()
        assert [name for name in store.list("lease/") if "beat" not in name] == ["lease/lease-000002.json"]
    assert time.monotonic() - began < 20  # less than one TTL, also on a busy machine
    assert "which is dead" in said[0]
    assert store.list("lease/") == {}


def test_a_reused_pid_is_not_the_owner(store: Store) -> None:
    """This very process's pid with another start time: the owner is dead."""
    write_owner(store, dataclasses.replace(this_process(), started="1"))
    with quick(store, ttl_s=30):
        pass
    assert is_alive(this_process()) is True
    assert is_alive(dataclasses.replace(this_process(), machine="elsewhere")) is None


def test_a_silent_owner_elsewhere_is_waited_for_with_a_countdown(store: Store) -> None:
    """Its clock is an hour ahead: only what the waiter sees counts."""
    write_owner(store, dataclasses.replace(this_process(), machine="elsewhere", host="far"), at=time.time() + 3600)
    said: list[str] = []
    began = time.monotonic()
    with quick(store, say=said.append):
        assert time.monotonic() - began >= 0.6
    assert "on far" in said[0]
    assert "taking over in" in said[0]
    assert "unless it shows life" in said[0]
    assert len(said) >= 2


def test_a_live_owner_elsewhere_refuses_at_its_next_heartbeat(store: Store) -> None:
    """Its clock is an hour behind, so its heartbeat looks stale; it changes, so it lives."""
    write_owner(store, dataclasses.replace(this_process(), machine="elsewhere", host="far"), at=time.time() - 3600)
    timer = threading.Timer(0.25, lambda: store.put("lease/beat-t.json", b'{"time": 2, "nonce": "new"}'))
    timer.start()
    with pytest.raises(ResumeError, match="on far"):
        quick(store, ttl_s=5).__enter__()
    timer.join()
    with pytest.raises(ResumeError, match="on far"):
        quick(store, wait=False).__enter__()


def test_a_hung_owner_is_taken_over_and_notices(store: Store) -> None:
    """A driver stopped by SIGSTOP, or whose heartbeats hang: alone it goes on, taken over it stops."""
    with quick(store) as sleeper:
        sleeper._stop.set()
        sleeper._thread.join()
        time.sleep(0.7)
        sleeper.check()  # silent for long, but nobody came
        time.sleep(0.7)
        with quick(store) as taker:
            with pytest.raises(StorageError, match=rf"process {os.getpid()} on \S+ took over"):
                sleeper.check()
            taker.check()
    assert store.list("lease/") == {}


def test_the_heartbeat_notices_a_takeover(store: Store) -> None:
    with quick(store, ttl_s=30) as lease:
        write_owner(store, this_process(), number=2)
        until = time.monotonic() + 10
        while not lease._lost and time.monotonic() < until:
            time.sleep(0.02)
        with pytest.raises(StorageError, match="took over"):
            lease.check()
    assert "lease/lease-000002.json" in store.list("lease/")  # the loser leaves the winner's lease alone


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_of_eight_takers_one_gets_in(kind: str, request: pytest.FixtureRequest, store: Store) -> None:
    if kind == "s3":
        store = Store(request.getfixturevalue("s3_uri"))
    write_owner(store, dataclasses.replace(this_process(), started="1"))
    inside, most, refused = 0, 0, 0
    lock, everyone_tried = threading.Lock(), threading.Event()

    def take() -> None:
        nonlocal inside, most, refused
        try:
            with Lease(store, ttl_s=30, heartbeat_s=0.2, say=lambda line: None) as lease:
                with lock:
                    inside += 1
                    most = max(most, inside)
                everyone_tried.wait(20)
                lease.check()
                with lock:
                    inside -= 1
        except ResumeError:
            with lock:
                refused += 1
                if refused == 7:
                    everyone_tried.set()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, refused) == (1, 7)
    assert store.list("lease/") == {}


def write_owner(store: Store, identity: Any, at: float | None = None, number: int = 1) -> None:
    """A lease as another process would have left it."""
    at = time.time() if at is None else at
    owner = {**dataclasses.asdict(identity), "token": "t", "since": at}
    store.put("lease/beat-t.json", json.dumps({"time": at, "nonce": "old"}).encode())
    store.put(f"lease/lease-{number:06d}.json", json.dumps(owner).encode())

"""Busy stores are waited for, others are not (docs/reports.md C13): faults injected before a real S3 server."""

import time
from typing import Any

import pytest

from mulo_ray.errors import StorageError, StoreBusyError
from mulo_ray.storage import RetryPolicy, Store
from mulo_ray.storage.retry import is_transient, with_retries
from tests.support.fault_proxy import Fault, FaultProxy

FAST = RetryPolicy(attempts=4, first_s=0.001, cap_s=0.01)


@pytest.fixture
def proxy(s3_server: dict[str, Any], s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with FaultProxy(s3_server["endpoint"]) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running


def test_a_small_put_is_one_request(proxy: FaultProxy, s3_uri: str) -> None:
    """Not three, as multipart uploads are; a listing is one, too."""
    store = Store(s3_uri)
    store.put("a", b"x" * 60_000)
    assert [method for method, _ in proxy.requests] == ["PUT"]
    store.list()
    assert [method for method, _ in proxy.requests] == ["PUT", "GET"]


@pytest.mark.parametrize("kind", ["503", "500", "429"])
def test_every_third_key_fails_twice_and_all_are_written(proxy: FaultProxy, s3_uri: str, kind: str) -> None:
    proxy.faults = [Fault(kind=kind, path=f"/k{n}", times=2) for n in (0, 3, 6)]
    store = Store(s3_uri, {}, FAST)
    for n in range(9):
        store.put(f"k{n}", str(n).encode())
    assert {name: store.get(name) for name in store.list()} == {f"k{n}": str(n).encode() for n in range(9)}
    assert proxy.count("PUT") == 9 + 3 * 2  # one retry layer: nothing below repeats on its own


def test_broken_connections_are_tried_again(proxy: FaultProxy, s3_uri: str) -> None:
    """The HTTP library repeats some of these unseen, so requests are not counted."""
    proxy.faults = [
        Fault(kind="reset", path="/a", times=2),
        Fault(kind="lost", path="/b"),
        Fault(kind="slow", path="/c"),
    ]
    store = Store(s3_uri, {}, FAST)
    for name in "abc":
        store.put(name, name.encode() * 10)
    assert store.list() == {"a": 10, "b": 10, "c": 10}


def test_a_store_that_fails_for_ever_fails_its_rows_only(proxy: FaultProxy, s3_uri: str) -> None:
    proxy.faults = [Fault(kind="503", path=f"/k{n}", times=99) for n in (0, 3, 6)]
    store = Store(s3_uri, {}, FAST)
    for n in range(9):
        if n % 3 == 0:
            with pytest.raises(StoreBusyError, match="kept failing"):
                store.put(f"k{n}", b"x")
        else:
            store.put(f"k{n}", b"x")
    assert len(store.list()) == 6
    assert proxy.count("PUT") == 6 + 3 * FAST.attempts


def test_denied_access_is_not_tried_again(proxy: FaultProxy, s3_uri: str) -> None:
    proxy.faults = [Fault(kind="403", times=99)]
    with pytest.raises(StorageError, match="no permission to use the bucket s3://mulo-test") as caught:
        Store(s3_uri).put("a", b"x")
    assert not isinstance(caught.value, StoreBusyError)
    assert proxy.count("PUT") == 1


def test_a_lost_answer_is_no_lost_race(proxy: FaultProxy, s3_uri: str) -> None:
    """The retry of a create meets its own object; another's object is still a lost race."""
    store = Store(s3_uri, {}, FAST)
    proxy.faults = [Fault(kind="lost", path="/mine"), Fault(kind="reset", path="/theirs")]
    assert store.create("mine", b"my bytes", unique=True) is True
    Store(s3_uri).put("other/theirs", b"their bytes")
    assert store.create("other/theirs", b"my bytes", unique=True) is False
    assert store.get("other/theirs") == b"their bytes"


def test_a_torn_answer_is_read_again(proxy: FaultProxy, s3_uri: str) -> None:
    store = Store(s3_uri, {}, FAST)
    store.put("a", b"x" * 10_000)
    proxy.faults = [Fault(kind="truncate", method="GET")]
    assert store.get("a") == b"x" * 10_000
    assert proxy.faults[0].times == 0


def test_retries_end_by_count_and_by_time() -> None:
    policy = RetryPolicy()
    waits = [policy.wait_s(attempt) for attempt in range(1, policy.attempts)]
    assert sum(waits) < 30
    assert all(policy.wait_s(50) <= policy.cap_s for _ in range(10))
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        with_retries(_time_out, RetryPolicy(attempts=99, first_s=0.02, cap_s=0.02, deadline_s=0.1))
    assert time.monotonic() - began < 2


def _time_out() -> None:
    raise TimeoutError


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (OSError("AWS Error UNKNOWN (HTTP status 429)"), True),
        (OSError("Please reduce your request rate"), True),
        (ConnectionResetError(), True),
        (PermissionError("request timed out"), False),
        (FileNotFoundError("images/503-0.png"), False),
        (OSError("no such thing: images/503-0.png"), False),
        (OSError(28, "No space left on device"), False),
        (ValueError("x"), False),
    ],
)
def test_which_errors_pass(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient

"""Objects on disk, in memory and on a real S3 server (docs/reports.md C7, C10)."""

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mulo_ray.errors import StorageError, UsageError
from mulo_ray.storage import Store, key_of, object_name

IDS = ["a b", "a+b", "a%20b", "a#b", "a?b", "\u00fc", "../x", "."]


@pytest.fixture(params=["local", "memory", "s3"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh place per kind of store, with a blank and a # in its prefix."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3_uri')}/my run#1/"
    return f"memory://{tmp_path.name}/my run#1/" if request.param == "memory" else f"{tmp_path}/my run#1/"


def test_odd_ids_become_distinct_objects_that_are_found_again(uri: str) -> None:
    """reports C7: eight ids, eight objects under the literal prefix; the listing tells the ids."""
    store = Store(uri)
    store.probe()
    for id_ in IDS:
        store.put(object_name(id_, 0), id_.encode())
    listed = store.list("images/")
    assert len(listed) == len(IDS)
    assert sorted(key for key, _ in filter(None, map(key_of, listed))) == sorted(IDS)
    for id_ in IDS:
        assert store.exists(object_name(id_, 0))
        assert store.get(object_name(id_, 0)) == id_.encode()
    assert store.uri_of("a") == f"{uri}a"
    assert store.list() == listed  # nothing elsewhere, the probe left nothing
    assert store.list("nothing/") == {}


def test_put_overwrites_create_does_not(uri: str) -> None:
    store = pickle.loads(pickle.dumps(Store(uri)))
    store.put("x", b"one")
    store.put("x", b"two")
    assert store.get("x") == b"two"
    assert store.create("x", b"three") is False
    assert store.get("x") == b"two"
    assert store.create("y", b"new") is True
    store.delete("x")
    store.delete("x")
    assert not store.exists("x")
    with pytest.raises(FileNotFoundError):
        store.get("x")


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_of_racing_creators_one_wins(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """32 clients at once: every round has one winner, and its bytes stay."""
    store = Store(request.getfixturevalue("s3_uri") if kind == "s3" else str(tmp_path / "race"))
    with ThreadPoolExecutor(32) as pool:
        for race in range(2):
            name = f"lease/{race}"
            won = list(pool.map(lambda n, name=name: store.create(name, str(n).encode()), range(32)))
            assert won.count(True) == 1
            assert store.get(name) == str(won.index(True)).encode()


def test_options_stay_out_of_the_repr_and_paths_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("s3://bucket/x", {"key": "open", "secret": "sesame"})
    assert "sesame" not in repr(store)
    with pytest.raises(dataclasses.FrozenInstanceError):
        store.uri = "s3://other"  # type: ignore[misc]
    monkeypatch.chdir(tmp_path)
    assert Store("out/run").uri == str(tmp_path / "out/run")
    assert Store(f"file://{tmp_path}/a#b").uri == f"{tmp_path}/a#b"


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("nope://bucket/x", "unknown scheme 'nope'; usual ones are .*s3://"),
        ("s3://", "names no bucket"),
        ("s3://key:secret@bucket/x", r"s3://\.\.\.@bucket carries credentials"),
    ],
)
def test_uris_that_cannot_work(uri: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Store(uri)
    assert "secret@" not in str(caught.value)


def test_a_missing_package_is_named_with_its_command() -> None:
    code = """
        import sys
        sys.modules["s3fs"] = None
        from mulo_ray.errors import UsageError
        from mulo_ray.storage import Store
        try:
            Store("s3://bucket/x")
        except UsageError as error:
            print(error)
        print("ray" in sys.modules or "torch" in sys.modules)
    """
    said = _python(code).communicate(timeout=30)[0]
    assert "pip install s3fs==" in said
    assert said.endswith("False\n")  # storage needs neither ray nor torch


def test_the_probe_names_what_is_wrong(s3_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bucket missing, wrong key, no server, a file in the way: a sentence within seconds."""
    (tmp_path / "file").write_text("x")
    began = time.monotonic()
    with pytest.raises(StorageError, match="bucket s3://no-such-bucket does not exist; create it first"):
        Store("s3://no-such-bucket/x").probe()
    with pytest.raises(StorageError, match="no permission to use the bucket s3://mulo-test"):
        Store(s3_uri, {"key": "wrong", "secret": "wrong"}).probe()
    with pytest.raises(StorageError, match=r"directory .*file.* refused"):
        Store(str(tmp_path / "file" / "run")).probe()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StorageError, match="cannot be reached"):
        Store(s3_uri).probe()
    assert time.monotonic() - began < 25


def test_a_full_disk_leaves_no_object(tmp_path: Path) -> None:
    """reports C10: the kernel refuses the write after 100 bytes; the final name stays absent, a rerun completes."""
    code = """
        import resource, signal, sys
        from mulo_ray.errors import StorageError
        from mulo_ray.storage import Store
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            Store(sys.argv[1]).put("images/a.png", b"x" * 5000)
        except StorageError as error:
            print(error)
    """
    done = _python(code, str(tmp_path))
    assert "images/a.png failed" in done.communicate(timeout=30)[0]
    store = Store(str(tmp_path))
    assert list((tmp_path / "images").iterdir()) == []
    store.put("images/a.png", b"whole")
    assert store.list() == {"images/a.png": 5}


def test_a_killed_writer_leaves_whole_objects_only(tmp_path: Path) -> None:
    """reports C10, C12: SIGKILL in the middle of puts; what is listed is whole, what is left over is swept."""
    code = """
        import sys
        from mulo_ray.storage import Store
        store, n = Store(sys.argv[1]), 0
        print("go", flush=True)
        while True:
            store.put(f"images/{n % 7}.png", bytes([n % 7]) * 3_000_000)
            n += 1
    """
    store = Store(str(tmp_path))
    for delay in (0.05, 0.12, 0.2):
        process = _python(code, str(tmp_path))
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for name in store.list():
            assert store.get(name) == bytes([int(name[7])]) * 3_000_000
    leftover = tmp_path / "images" / f".0.png.{'0' * 12}-1-00000000.tmp"
    leftover.write_bytes(b"half")
    os.utime(leftover, (1, 1))  # of another host, hours ago
    store.sweep()
    assert [p.name for p in (tmp_path / "images").iterdir() if p.name.startswith(".")] == []


def test_sweeping_spares_live_writers(tmp_path: Path) -> None:
    from mulo_ray.storage.identity import this_machine

    mine = tmp_path / f".a.{this_machine()}-{os.getpid()}-00000000.tmp"
    mine.write_bytes(b"")
    assert Store(str(tmp_path)).sweep() == 0
    assert mine.exists()


def test_stores_without_create_only_warn_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that ignores If-None-Match, as rclone's does, is found by the probe."""
    from fsspec.implementations.memory import MemoryFileSystem

    original = MemoryFileSystem.pipe_file

    def ignoring(self: Any, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        original(self, path, value, mode="overwrite", **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", ignoring)
    store = Store("memory://careless/run")
    store.probe()
    assert caplog.text.count("cannot create objects exclusively") == 1
    assert [store.create("x", b"1"), store.create("x", b"2")] == [True, False]
    assert caplog.text.count("cannot create objects exclusively") == 1


def _python(code: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], stdout=subprocess.PIPE, text=True
    )

"""Where weights come from: folders, URIs, hub ids; one download per node, contents hashed once."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest

from mulo_ray.errors import CheckpointError
from mulo_ray.models import sources
from mulo_ray.models.sources import cache_folder, fingerprint, local_folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULO_RAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> str:
    store = fsspec.filesystem("memory")
    root = f"/weights-{request.node.name}"
    for name, content in {"a.pt": b"one", "t5/config.json": b"{}", "notes.txt": b"no"}.items():
        store.pipe(f"{root}/{name}", content)
    return f"memory:/{root}"


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert local_folder(str(tmp_path), ["*.pt"]) == tmp_path
    assert local_folder(f"file://{tmp_path}", ["*.pt"]) == tmp_path
    assert not cache_folder().exists()


def test_what_is_no_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match="takes the folder of the files"):
        local_folder(str(tmp_path / "a.pt"), ["*.pt"])
    with pytest.raises(CheckpointError, match="no such folder here, and it is neither a URI"):
        local_folder(str(tmp_path / "none" / "deeper"), ["*.pt"])


def test_only_wanted_files_are_fetched_and_only_once(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    download = type(fsspec.filesystem("memory")).get_file

    def counted(self: Any, path: str, target: str, **options: Any) -> Any:
        fetched.append(path.rpartition("/")[2])
        return download(self, path, target, **options)

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "get_file", counted)
    gate = threading.Barrier(4)

    def fetch() -> Path:
        gate.wait()
        return local_folder(bucket, ["*.pt", "*.json"])

    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: fetch(), range(4)))
    assert len(folders) == 1
    folder = folders.pop()
    assert (folder / "a.pt").read_bytes() == b"one"
    assert (folder / "t5" / "config.json").read_bytes() == b"{}"
    assert not (folder / "notes.txt").exists()
    assert sorted(fetched) == ["a.pt", "config.json"]
    fsspec.filesystem("memory").pipe(f"{bucket.removeprefix('memory:/')}/a.pt", b"another")
    assert (local_folder(bucket, ["*.pt", "*.json"]) / "a.pt").read_bytes() == b"another"
    assert sorted(fetched) == ["a.pt", "a.pt", "config.json"]


def test_a_uri_without_what_is_wanted_says_what_it_holds(bucket: str) -> None:
    with pytest.raises(CheckpointError, match=r"is called \*\.pth; it holds a\.pt, notes\.txt, t5/config\.json"):
        local_folder(bucket, ["*.pth"])
    with pytest.raises(CheckpointError, match="cannot be fetched"):
        local_folder("nosuchscheme://x/y", ["*.pt"])


def test_an_unreachable_hub_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def offline(*_: object, **__: object) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(CheckpointError, match=r"'owner/name' is no folder here.*ConnectionError: no route"):
        local_folder("owner/name", ["*.pt"])


def test_contents_are_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w" / "a.pt"
    path.parent.mkdir()
    path.write_bytes(b"one")
    first = fingerprint([path])
    with monkeypatch.context() as patch:
        patch.setattr(sources.hashlib, "sha256", _only_small(sources.hashlib.sha256))
        assert fingerprint([path]) == first
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert fingerprint([path]) != first
    assert fingerprint([path], base="other") != fingerprint([path])


def _only_small(real: Any) -> Any:
    """A hash that refuses to be fed piece by piece, as file contents are."""

    class Hash:
        def __init__(self, start: bytes = b"") -> None:
            self._real = real(start)

        def update(self, data: bytes) -> None:
            assert b"one" != data, "the file was read again"
            self._real.update(data)

        def hexdigest(self) -> str:
            return str(self._real.hexdigest())

    return Hash


def test_a_read_only_folder_keeps_its_digests_in_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "w" / "a.pt"
    path.parent.mkdir()
    path.write_bytes(b"one")
    (path.parent / ".mulo-fingerprints").write_text("in the way")
    first = fingerprint([path])
    assert list((cache_folder() / "fingerprints").rglob("a.pt.json"))
    assert fingerprint([path]) == first

"""Weights named by a path, an fsspec URI or a hub id become a folder on this machine, and a fingerprint.

A node downloads once, under a file lock, whatever the number of processes that ask. Knows no family and no tensor.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import fsspec
from filelock import FileLock

from mulo_ray.errors import CheckpointError
from mulo_ray.models.extras import need

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_CHUNK = 8 * 2**20
_STAMPS = ".mulo-fingerprints"


def cache_folder() -> Path:
    """Where downloads go: `MULO_RAY_CACHE`, else mulo_ray in the user's cache folder."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("MULO_RAY_CACHE") or user / "mulo_ray")


def local_folder(weights: str, wanted: Sequence[str]) -> Path:
    """The folder that `weights` names, after downloading the files that match `wanted` ("*.pt") if it is remote.

    Raises CheckpointError when there is no such folder, URI or hub repository, or nothing of what is wanted in it.
    """
    scheme, separator, rest = weights.partition("://")
    if separator and scheme not in ("file", "local"):
        return _from_uri(weights, wanted)
    folder = Path(rest if separator else weights).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise CheckpointError(f"--weights takes the folder of the files, got the file {weights!r}")
    if not separator and _HUB_ID.fullmatch(weights):
        return _from_hub(weights, wanted)
    raise CheckpointError(
        f"no weights at {weights!r}: no such folder here, and it is neither a URI (s3://bucket/prefix) nor a hub id "
        "(owner/name)"
    )


def fingerprint(paths: Sequence[Path], base: str = "") -> str:
    """Sixteen hex digits over `base`, then name and content of every file, in the order given.

    Contents are hashed once: digests are kept beside the files (or in the cache folder, where that is read-only) and
    hold as long as size and time of change do.
    """
    digest = hashlib.sha256(base.encode())
    for path in paths:
        digest.update(f"{path.name} {_content_digest(path)}\n".encode())
    return digest.hexdigest()[:16]


def _content_digest(path: Path) -> str:
    state = path.stat()
    stamp = [state.st_size, state.st_mtime_ns]
    elsewhere = cache_folder() / "fingerprints" / hashlib.sha256(str(path.parent.resolve()).encode()).hexdigest()[:16]
    places = [path.parent / _STAMPS, elsewhere]
    for place in places:
        known = _read_json(place / f"{path.name}.json")
        if known.get("stamp") == stamp:
            return str(known["sha256"])
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    found = digest.hexdigest()
    for place in places:
        try:
            _write_json(place / f"{path.name}.json", {"stamp": stamp, "sha256": found})
            break
        except OSError:
            continue  # read-only: the next place, or hash again next time
    return found


def _from_uri(uri: str, wanted: Sequence[str]) -> Path:
    folder = cache_folder() / "weights" / hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        filesystem, root = fsspec.url_to_fs(uri)
        with FileLock(folder / ".lock"):
            remote = {str(path)[len(str(root).rstrip("/")) + 1 :]: str(path) for path in filesystem.find(root)}
            chosen = {name: path for name, path in remote.items() if _matches(name, wanted)}
            if not chosen:
                raise CheckpointError(f"nothing at {uri!r} is called {', '.join(wanted)}; it holds {_some(remote)}")
            for name, path in chosen.items():
                _download(filesystem, path, folder / name)
    except CheckpointError:
        raise
    except Exception as error:  # each filesystem has errors of its own; all mean the same to the user
        raise CheckpointError(f"the weights at {uri!r} cannot be fetched: {type(error).__name__}: {error}") from error
    return folder


def _download(filesystem: Any, path: str, target: Path) -> None:
    """Fetch a file unless it is there in the store's present version; it appears under its name only when whole."""
    version = str(filesystem.ukey(path))
    stamp = target.parent / _STAMPS / f"{target.name}.source.json"
    if target.is_file() and _read_json(stamp).get("version") == version:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    filesystem.get_file(path, str(part))
    os.replace(part, target)
    _write_json(stamp, {"version": version})


def _from_hub(hub_id: str, wanted: Sequence[str]) -> Path:
    hub = need("huggingface_hub", f"fetching {hub_id} from the hub")
    lock = cache_folder() / "weights" / f"{hub_id.replace('/', '--')}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock):
            folder = Path(hub.snapshot_download(hub_id, allow_patterns=[*wanted, *(f"*/{name}" for name in wanted)]))
    except Exception as error:  # offline, no such repository, gated: the library has an error for each
        reason = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"{hub_id!r} is no folder here, and fetching it from the hub failed ({type(error).__name__}: {reason}); "
            "give a folder that holds the files"
        ) from error
    if not any(path.is_file() for path in folder.rglob("*")):
        raise CheckpointError(f"the hub repository {hub_id} holds none of {', '.join(wanted)}")
    return folder


def _matches(name: str, wanted: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) or fnmatch(name.rpartition("/")[2], pattern) for pattern in wanted)


def _some(names: dict[str, str]) -> str:
    return ", ".join(sorted(names)[:5]) or "no files"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(data), encoding="utf-8")
    os.replace(part, path)

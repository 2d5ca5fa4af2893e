"""run.json: what run an output directory holds, written once by whoever comes first.

A later job may add to it only if it would make the same pixels. Knows no ledger and no option by name.
"""

import importlib.metadata
import json
import logging
import platform
from typing import Any

import mulo_ray
from mulo_ray.errors import ResumeError, StorageError
from mulo_ray.storage.store import Store

log = logging.getLogger(__name__)

RUN_FILE = "run.json"
_LIBRARIES = ("torch", "ray", "numpy", "pillow", "safetensors")


def claim_run(store: Store, resolved: dict[str, Any], pixels: dict[str, Any], pixel_hash: str) -> bool:
    """Make `store` hold this run: True when it is new, False when it holds the same one already.

    A run that made no image, because it was refused or stopped before, gives way to another.
    `resolved` is the whole config, `pixels` the fields that decide image bytes, `pixel_hash` their hash.
    Raises ResumeError naming every field that differs, StorageError when run.json is not readable.
    """
    mine = {
        "format": 1,
        "pixel_hash": pixel_hash,
        "pixels": pixels,
        "config": resolved,
        "versions": library_versions(),
    }
    text = json.dumps(mine, indent=2, sort_keys=True)
    if store.create(RUN_FILE, text.encode()):
        return True
    theirs = _read(store)
    if theirs.get("pixel_hash") != pixel_hash:
        if not store.list("images/"):
            store.put(RUN_FILE, text.encode())
            return True
        raise ResumeError(_refusal(store, theirs, json.loads(text)))
    old, new = theirs.get("versions", {}), mine["versions"]
    if old != new:
        log.warning("%s was begun with %s and goes on with %s: bytes may differ", store.uri, old, new)
    return False


def library_versions() -> dict[str, str]:
    """Versions that may change pixels, read without importing anything."""
    versions = {"mulo_ray": mulo_ray.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _read(store: Store) -> dict[str, Any]:
    where = store.uri_of(RUN_FILE)
    try:
        content = json.loads(store.get(RUN_FILE))
        if not isinstance(content, dict):
            raise ValueError(f"expected an object, got {content!r}"[:80])
    except (ValueError, FileNotFoundError) as error:
        raise StorageError(
            f"{where} is not a readable run file ({error}); it says what the images beside it are, so restore it or "
            "use another --output"
        ) from error
    return content


def _refusal(store: Store, theirs: dict[str, Any], mine: dict[str, Any]) -> str:
    old, new = theirs.get("pixels") or {}, mine["pixels"]
    missing = object()
    differing = [
        f"{name}: {old.get(name, 'absent')!r} there, {new.get(name, 'absent')!r} here"
        for name in sorted({*old, *new})
        if old.get(name, missing) != new.get(name, missing)
    ]
    if not differing:
        differing = [f"pixel hash: {theirs.get('pixel_hash')!r} there, {mine['pixel_hash']!r} here"]
    return (
        f"{store.uri} holds a run that makes other pixels ({'; '.join(differing)}). Give the former values to go on "
        "with it, or another --output to begin a new one"
    )

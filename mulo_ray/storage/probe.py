"""The check before any work: can an object be written, read, created once and deleted here?

Knows no error sentences: what the backend raises passes, and store.py explains it.
"""

import uuid

from mulo_ray.errors import StorageError
from mulo_ray.storage.local_files import LocalFiles
from mulo_ray.storage.remote_objects import RemoteObjects


def probe_backend(backend: LocalFiles | RemoteObjects) -> None:
    """A listing and one round trip under a unique name. Raises StorageError when other bytes come back."""
    name = f"probe-{uuid.uuid4().hex}"
    data = name.encode()
    backend.names("ledger/")  # a missing bucket is told apart from missing rights by a listing only
    try:
        backend.write_new(name, data)
        if backend.read(name) != data:
            raise StorageError(f"{backend.root} gave back other bytes than were written; it cannot hold a run")
        try:
            backend.write_new(name, data)
        except FileExistsError:
            pass
        else:
            if isinstance(backend, RemoteObjects):
                backend.distrust_create_only()
        backend.write(name, data)
    finally:
        backend.delete(name)

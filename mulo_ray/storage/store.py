"""One output location: small whole objects by name, on disk or in any fsspec store.

A write is one whole-buffer put, visible only when complete, and tried again while the store is merely busy.
Knows no image, no ledger, no run.
"""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mulo_ray.errors import StorageError, StoreBusyError
from mulo_ray.storage.filesystems import bucket_of, normal_uri, open_backend
from mulo_ray.storage.local_files import LocalFiles
from mulo_ray.storage.probe import probe_backend
from mulo_ray.storage.remote_objects import RemoteObjects
from mulo_ray.storage.retry import RetryPolicy, is_transient, with_retries

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Store:
    """A place for objects; names use "/" and never start with it.

    Picklable: the connection is made in the process that uses it. `storage_options` go to the fsspec filesystem and
    stay out of the repr. Every method raises StorageError for what will not pass (access, missing bucket, full disk)
    and StoreBusyError when the retries are used up; construction raises UsageError for a URI that cannot work.
    """

    uri: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    retry: RetryPolicy = field(default=RetryPolicy(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", normal_uri(self.uri))

    def uri_of(self, name: str) -> str:
        """Where an object lies, as a person or another tool would name it."""
        return f"{self.uri.rstrip('/')}/{_checked(name)}"

    def put(self, name: str, data: bytes) -> None:
        """Write or overwrite one object, all or nothing."""
        self._try("writing", name, lambda: self._backend().write(name, data))

    def create(self, name: str, data: bytes, *, unique: bool = False) -> bool:
        """Write an object only if the name is free; False when it exists. Of racing callers one gets True.

        An answer lost after the write makes the client meet its own object, and clients repeat requests unseen. With
        `unique`, `data` holds a token that nobody else writes, so meeting it counts as success; without, as False.
        A store that cannot promise one winner warns once and does its best.
        """

        def attempt() -> bool:
            backend = self._backend()
            try:
                backend.write_new(name, data)
            except FileExistsError:
                return unique and backend.read(name) == data
            return True

        return self._try("creating", name, attempt)

    def get(self, name: str) -> bytes:
        """The whole object; FileNotFoundError when there is none."""
        return self._try("reading", name, lambda: self._backend().read(name), missing_ok=True)

    def exists(self, name: str) -> bool:
        return self._try("looking up", name, lambda: self._backend().exists(name))

    def list(self, prefix: str = "") -> dict[str, int]:
        """Name -> size in bytes of every object below the folder `prefix`, sorted by name, from one fresh listing."""
        found = self._try("listing", prefix or ".", lambda: self._backend().names(prefix))
        return dict(sorted(found.items()))

    def delete(self, name: str) -> None:
        """Remove one object; none there is fine."""
        self._try("deleting", name, lambda: self._backend().delete(name))

    def sweep(self) -> int:
        """Remove what writers that died left behind (local disks only); returns how many files."""
        return self._try("sweeping", ".", lambda: self._backend().sweep())

    def probe(self) -> None:
        """List, write, read back, create and delete a small object, so that a job fails in seconds and not in hours.

        Also finds out whether the store honours create-only writes. Raises StorageError.
        """
        quick = RetryPolicy(attempts=3, first_s=0.2, cap_s=1.0, deadline_s=8.0)
        name = "probe"
        self._try("writing a probe to", name, lambda: probe_backend(self._backend()), policy=quick)

    def _backend(self) -> LocalFiles | RemoteObjects:
        return open_backend(self.uri, self.storage_options)

    def _try(
        self,
        doing: str,
        name: str,
        action: Callable[[], T],
        missing_ok: bool = False,
        policy: RetryPolicy | None = None,
    ) -> T:
        where = self.uri_of(name)
        try:
            return with_retries(action, policy or self.retry)
        except StorageError:
            raise
        except Exception as error:  # every filesystem has its own classes; all become one sentence here
            if missing_ok and isinstance(error, FileNotFoundError):
                raise
            kind = StoreBusyError if is_transient(error) else StorageError
            raise kind(f"{doing} {where} failed: {self._cause(error)}") from error

    def _cause(self, error: Exception) -> str:
        place = bucket_of(self.uri)
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        number = error.errno if isinstance(error, OSError) else None
        if is_transient(error):
            return f"the store kept failing or cannot be reached ({text}); check its address, or run again later"
        if isinstance(error, FileNotFoundError):
            return f"the {place} does not exist; create it first ({text})"
        if isinstance(error, PermissionError) or number == errno.EROFS:
            return f"no permission to use the {place}; check credentials and rights ({text})"
        if "credentials" in text.lower():
            return f"no credentials for the {place}; set them in the environment of every node ({text})"
        if number in (errno.ENOSPC, errno.EDQUOT):
            return f"the disk of the {place} is full ({text})"
        return f"the {place} refused ({text})"


def _checked(name: str) -> str:
    parts = name.rstrip("/").split("/")
    assert name == "." or not any(part in ("", ".", "..") for part in parts), f"object name {name!r} is not plain"
    return name

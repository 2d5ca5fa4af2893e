"""What evaluation needs of an output: bytes in and out by name, and names for ledger rows.

`mulo_ray.storage.Store` satisfies `RunStore`; anything with these three methods does. Knows no format and no run.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from mulo_ray.types import LedgerRow

IMAGES = "images/"


class RunStore(Protocol):
    """One output prefix; names are relative to it."""

    def get(self, name: str) -> bytes: ...

    def put(self, name: str, data: bytes) -> Any: ...

    def uri_of(self, name: str) -> str: ...


def object_name(store: RunStore, row: LedgerRow) -> str:
    """The name of a row's image in `store`, also when the output was moved since the row was written."""
    base = store.uri_of(IMAGES)
    if row.uri.startswith(base):
        return IMAGES + row.uri[len(base) :].lstrip("/")
    return IMAGES + row.uri.rpartition("/" + IMAGES)[2]


def settings(resolved: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every leaf of a resolved config as ("decoding.tau", value), in the order written."""
    for key, value in resolved.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in settings(value))
        else:
            yield key, value


def setting(resolved: Mapping[str, Any], option: str) -> Any:
    """The value of one option wherever the config holds it; None where it was never set."""
    found = [value for path, value in settings(resolved) if path.rpartition(".")[2] == option]
    return next((value for value in found if value is not None), None)

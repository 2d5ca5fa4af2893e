"""The ledger: one row per finished (prompt, sample), in Parquet parts that are written once and never changed.

An image counts as done when its row is here, and its row is written after it. Parts may repeat a pair: an ok row
beats a failed one, else the latest part wins. Knows no image and no Ray.
"""

import dataclasses
import io
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mulo_ray.errors import StorageError
from mulo_ray.storage.store import Store
from mulo_ray.types import LedgerRow

FOLDER = "ledger/"
SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("prompt_used", pa.string(), nullable=False),
        pa.field("attempts", pa.int32(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("transient", pa.bool_(), nullable=False),
        pa.field("stats", pa.string(), nullable=False),
    ]
)
_PART = re.compile(r"ledger/part-(\d{6})-\d{20}-[0-9a-f]{12}c*\.parquet")
_READERS = 8

Rows = dict[tuple[str, int], LedgerRow]


class Ledger:
    """The ledger of one store. Picklable; several processes may append at once.

    Part names sort by generation, time and chance. A generation is one more than any that was there when this
    ledger first looked, so that a later run's parts come last even if its clock is behind.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._generation: int | None = None

    def rows(self) -> Rows:
        """The effective row of every pair. Raises StorageError naming files that are no whole ledger parts."""
        return _effective(self._read(self._parts()))

    def append(self, rows: Iterable[LedgerRow]) -> None:
        """Write one new part with one put; no rows, no part."""
        rows = list(rows)
        if not rows:
            return
        if self._generation is None:
            self._parts()
        stem = f"{FOLDER}part-{self._generation:06d}-{time.time_ns():020d}-{uuid.uuid4().hex[:12]}"
        self.store.put(f"{stem}.parquet", encode(rows))

    def compact(self) -> int:
        """Merge all parts into one and delete them; returns how many there were.

        The merged part is whole before the first deletion and sorts just after what it replaces, so that a crash at
        any moment, a repetition, and a part appended meanwhile all leave the same effective rows.
        """
        parts = self._parts()
        if len(parts) > 1:
            merged = _effective(self._read(parts))
            self.store.put(f"{parts[-1].removesuffix('.parquet')}c.parquet", encode(list(merged.values())))
            for name in parts:
                self.store.delete(name)
        return len(parts)

    def _parts(self) -> list[str]:
        names = list(self.store.list(FOLDER))
        foreign = [name for name in names if not _PART.fullmatch(name)]
        if foreign:
            raise self._refusal(foreign)
        if self._generation is None:
            self._generation = 1 + max((int(name[len(FOLDER) + 5 :][:6]) for name in names), default=0)
        return names

    def _read(self, names: Sequence[str]) -> list[list[LedgerRow]]:
        with ThreadPoolExecutor(_READERS) as pool:
            parts = list(pool.map(self._decode, names))
        torn = [name for name, part in zip(names, parts, strict=True) if part is None]
        if torn:
            raise self._refusal(torn)
        return [part for part in parts if part is not None]

    def _decode(self, name: str) -> list[LedgerRow] | None:
        try:
            return decode(self.store.get(name))
        except (pa.ArrowException, ValueError, TypeError, OSError):
            return None  # torn, foreign, or gone: the caller names it

    def _refusal(self, names: Sequence[str]) -> StorageError:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return StorageError(
            f"{self.store.uri} has files in {FOLDER} that are no whole ledger parts: {shown}. Move them away and run "
            "again; images whose rows were in them are made anew"
        )


def encode(rows: Sequence[LedgerRow]) -> bytes:
    """One Parquet file of `rows`; half surrogate pairs become "?"."""
    table = pa.Table.from_pylist([_plain(row) for row in rows], schema=SCHEMA)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def decode(data: bytes) -> list[LedgerRow]:
    """The rows of one Parquet file. Raises pyarrow's errors or ValueError when it is no ledger part."""
    table = pq.read_table(pa.BufferReader(data))
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"columns are {table.schema.names}")
    return [LedgerRow(**row) for row in table.to_pylist()]


def _plain(row: LedgerRow) -> dict[str, Any]:
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in dataclasses.asdict(row).items()
    }


def _effective(parts: Iterable[Iterable[LedgerRow]]) -> Rows:
    """Fold parts in their order."""
    rows: Rows = {}
    for part in parts:
        for row in part:
            pair = (row.key, row.sample)
            if row.status == "ok" or pair not in rows or rows[pair].status != "ok":
                rows[pair] = row
    return rows

"""The stage that puts files and emits ledger rows without them. Knows no store, only a `put`, and no format."""

import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import ray

from mulo_ray.errors import StorageError, StoreBusyError
from mulo_ray.types import LedgerRow
from mulo_ray.workers.attempts import enrol_this_actor
from mulo_ray.workers.blocks import Stored, read_outcomes, rows_table

Put = Callable[[str, int, bytes], str]
"""(prompt key, sample, whole file) -> URI of the stored object.

Raises, after its own retries, StoreBusyError for what may pass later and another StorageError for what will not.
"""

GROUPS_PER_WRITER = 4
"""Groups that one more writer is allowed for."""
PUTS_AT_ONCE = 8
"""An object store answers in tens of milliseconds: waiting for one at a time would hold the groups up."""


class Writer:
    """Puts each image once, whole, under a name that depends on its identity only: a repeat rewrites the same."""

    def __init__(self, put: Put, attempts: Any) -> None:
        self._put = put
        self._attempts = attempts
        enrol_this_actor(attempts)
        self._pool = ThreadPoolExecutor(PUTS_AT_ONCE)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Outcomes in, ledger rows out. A store that refuses for good ends the run: every row would fail."""
        try:
            return rows_table(list(self._pool.map(self._store, read_outcomes(batch))))
        except StorageError as error:
            ray.get(self._attempts.report_fatal.remote(type(error).__name__, str(error)))
            raise

    def _store(self, row: dict[str, Any]) -> Stored:
        png: bytes = row.pop("png")
        told = row.pop("timing")
        timing = json.loads(told) if told else None
        if row["error"]:
            return Stored(row=LedgerRow(status="failed", **row), timing=timing)
        started = time.monotonic()
        try:
            uri = self._put(row["key"], row["sample"], png)
        except StoreBusyError as error:
            row["error"], row["transient"] = str(error), True
            return Stored(row=LedgerRow(status="failed", **row), timing=timing)
        put_s = time.monotonic() - started
        stored = LedgerRow(status="ok", uri=uri, bytes=len(png), sha256=hashlib.sha256(png).hexdigest(), **row)
        return Stored(row=stored, timing=timing, put_s=put_s)

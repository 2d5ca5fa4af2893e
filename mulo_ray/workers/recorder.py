"""Writes rows down while the run goes on: what finished is in the ledger seconds later. Knows no Ray, no store."""

import signal
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from mulo_ray.types import LedgerRow
from mulo_ray.workers.progress import Progress

APPEND_EVERY_S = 3.0
TICK_S = 0.25


class Recorder:
    """Context manager around the loop that yields rows: `add` them; a thread of its own appends, checks and shows.

    When `append` or `check` fails, the main thread, if it is the one that works, is interrupted as by Ctrl-C; leaving
    the context raises that error.
    """

    def __init__(
        self, *, append: Callable[[list[LedgerRow]], None], check: Callable[[], None], progress: Progress
    ) -> None:
        self._append, self._check, self._progress = append, check, progress
        self._waiting: list[LedgerRow] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._keep_up, name="recorder", daemon=True)

    def add(self, rows: Iterable[LedgerRow]) -> None:
        rows = list(rows)
        with self._lock:
            self._waiting += rows
        made = sum(row.status == "ok" for row in rows)
        self._progress.add(made=made, failed=len(rows) - made)

    def __enter__(self) -> Self:
        self._interrupts = threading.current_thread() is threading.main_thread()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error from None
        self._flush()
        self._progress.tick(last=True)

    def _keep_up(self) -> None:
        try:
            since_append_s = 0.0
            while not self._stop.wait(TICK_S):
                since_append_s += TICK_S
                if since_append_s >= APPEND_EVERY_S:
                    since_append_s = 0.0
                    self._check()
                    self._flush()
                self._progress.tick()
        except Exception as error:
            self._error = error
            if self._interrupts and not self._stop.is_set():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _flush(self) -> None:
        with self._lock:
            rows, self._waiting = self._waiting, []
        if rows:
            self._append(rows)

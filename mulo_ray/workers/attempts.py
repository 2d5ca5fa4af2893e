"""What must outlive a group: which blocks and rows were running when it died, why the run cannot go on, and who works
for it.

An actor of the driver. Knows no model, no device and no image.
"""

from typing import Any

import ray

BLOCK_LOSSES_BEFORE_SINGLE_ROWS = 2
"""A block lost this often runs row by row, so that the row that kills its worker dies alone."""
ROW_LOSSES_BEFORE_FAILURE = 2
"""A row lost this often alone fails. Once may be a lost machine, and blocks are lost for the rows of others too."""


class Attempts:
    """Counts starts that never ended. A start without an end is a lost worker: nobody lives to report it."""

    def __init__(self) -> None:
        self._open_blocks: dict[int, int] = {}
        self._open_rows: dict[tuple[str, int], int] = {}
        self._fatal: tuple[str, str] | None = None
        self._workers: dict[str, Any] = {}

    def enrol(self, name: str, worker: Any) -> None:
        """Keep the handle of an actor that Ray Data made for the run; one that was restarted has its name still."""
        self._workers[name] = worker

    def enrolled(self) -> list[Any]:
        """The handles of all, dead ones too."""
        return list(self._workers.values())

    def losses(self, block: int) -> int:
        """How often a block was lost so far."""
        return self._open_blocks.get(block, 0)

    def begin_block(self, block: int) -> None:
        """Note that a block starts; until `end_block` it counts as lost."""
        self._open_blocks[block] = self._open_blocks.get(block, 0) + 1

    def end_block(self, block: int) -> None:
        self._open_blocks.pop(block, None)

    def begin_row(self, key: str, sample: int) -> bool:
        """Note that a row starts alone; False when it was lost so often that it must not run again."""
        losses = self._open_rows.get((key, sample), 0)
        if losses >= ROW_LOSSES_BEFORE_FAILURE:
            return False
        self._open_rows[key, sample] = losses + 1
        return True

    def end_row(self, key: str, sample: int) -> None:
        self._open_rows.pop((key, sample), None)

    def report_fatal(self, kind: str, sentence: str) -> None:
        """Keep the first reason why the run cannot go on: Ray passes on a traceback, not the exception."""
        self._fatal = self._fatal or (kind, sentence)

    def fatal(self) -> tuple[str, str] | None:
        """(class name, sentence) of the error that ends the run, if one was reported."""
        return self._fatal


def enrol_this_actor(attempts: Any) -> None:
    """Make the calling actor known to `attempts`, so that it ends with the run."""
    context = ray.get_runtime_context()
    ray.get(attempts.enrol.remote(context.get_actor_id(), context.current_actor))

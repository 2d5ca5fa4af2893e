"""What a watcher reads while a run works."""

import io
import time

import pytest

from mulo_ray.workers.progress import Progress
from mulo_ray.workers.recorder import Recorder


def test_the_line_counts_everything_and_times_only_what_ran_now(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    out = io.StringIO()
    progress = Progress(total=100, done_before=10, failed_before=2, stream=out)
    assert progress.line(7.0) == "10/100 done, 2 failed, starting workers (7 s)"
    clock[0] = 20.0
    progress.add(made=8, failed=0)
    clock[0] = 30.0
    progress.add(made=19, failed=1)
    assert progress.line(30.0) == "37/100 done, 3 failed, 2.00 images/s, 30 s left"
    progress.tick()
    progress.tick()
    assert out.getvalue().count("\n") == 1, "one line every few seconds"


def test_a_ledger_that_cannot_be_written_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reports.md D10: all rows succeed, but the ledger cannot be closed: that is no success."""
    monkeypatch.setattr("mulo_ray.workers.recorder.APPEND_EVERY_S", 0.25)
    progress = Progress(total=1, done_before=0, stream=io.StringIO())

    def check() -> None:
        raise OSError("another driver owns the output")

    with (
        pytest.raises(OSError, match="another driver"),
        Recorder(append=lambda rows: None, check=check, progress=progress),
    ):
        time.sleep(20)

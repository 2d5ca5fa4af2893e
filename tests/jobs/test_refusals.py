"""What `run` refuses before Ray is started."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workers"))
from stub_engine import stub_engine

from mulo_ray.config import JobConfig, OutputOptions
from mulo_ray.errors import StorageError, UsageError
from mulo_ray.job import run
from mulo_ray.storage.identity import this_machine
from mulo_ray.types import Prompt

ONE = [Prompt(key="a", text="a cat")]


def to(output: str) -> JobConfig:
    return JobConfig(output=OutputOptions(output=output))


def test_a_relative_output_inside_a_ray_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory of a job is a copy that is deleted with it."""
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    with pytest.raises(UsageError, match="'out/run' is relative"):
        run(to("out/run"), ONE, engine=stub_engine())


def test_an_output_in_the_memory_of_the_workers_is_refused() -> None:
    """It would be lost with them, and the run would call itself a success (docs/reports.md C9)."""
    with pytest.raises(UsageError, match=r"'memory://a/b' would stay in the memory of the worker processes"):
        run(to("memory://a/b"), ONE, engine=stub_engine())


def test_an_output_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    """ray#57278: a probe object, before any actor."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((StorageError, UsageError), match="file"):
        run(to(str(tmp_path / "file")), ONE, engine=stub_engine())


def test_a_run_of_unusable_prompts_starts_no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reports.md C3: recorded failures, and an exit code that says so."""
    monkeypatch.setattr("mulo_ray.job.session", lambda **_: pytest.fail("Ray was started for nothing"))
    bad = [Prompt(key=f"b{n}", text="", error="the caption is blank") for n in range(5)]
    report = run(to(str(tmp_path / "out")), bad, engine=stub_engine())
    assert (report.failed, report.made, int(report.exit_code)) == (5, 0, 3)
    again = run(to(str(tmp_path / "out")), bad, engine=stub_engine())
    assert (again.failed, int(again.exit_code)) == (5, 3)


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    """reports C10: half-written files of dead processes of this machine go, at the latest with the next run."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    images = tmp_path / "out" / "images"
    images.mkdir(parents=True)
    (images / f".a.png.{this_machine()}-{dead.pid}-0badcafe.tmp").write_bytes(b"half")
    bad = [Prompt(key="b", text="", error="the caption is blank")]
    run(to(str(tmp_path / "out")), bad, engine=stub_engine())
    assert list(images.iterdir()) == []

"""`ray job submit --working-dir . -- python jobs/coco5k.py` against a head of the test's own: images, exit codes."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_head import ray_environment, ray_head

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short path: Ray's socket names hold it."""
    with tempfile.TemporaryDirectory(prefix="mr", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def head(folder: Path) -> Iterator[str]:
    with ray_head(folder) as address:
        yield address


def _submit(head: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(sys.executable).with_name("ray")),
        "job",
        "submit",
        "--address",
        head,
        "--working-dir",
        str(ROOT),
    ]
    command += ["--", "python", "jobs/coco5k.py", *options]
    return subprocess.run(command, env=ray_environment(folder), cwd=folder, capture_output=True, text=True, check=False)


def test_submitted_job_makes_images_and_resumes(head: str, folder: Path) -> None:
    out = folder / "out"
    first = _submit(head, folder, "--limit", "2", "--output", str(out))
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-2000:]
    assert json.loads((out / "report.json").read_text())["made"] == 2
    before = {path.name: path.read_bytes() for path in (out / "images").rglob("*") if path.is_file()}
    again = _submit(head, folder, "--limit", "2", "--output", str(out))
    assert again.returncode == 0, again.stdout[-3000:] + again.stderr[-2000:]
    report = json.loads((out / "report.json").read_text())
    assert (report["made"], report["done_before"]) == (0, 2)
    assert {path.name: path.read_bytes() for path in (out / "images").rglob("*") if path.is_file()} == before
    assert len(before) == 2


def test_submitted_failure_is_a_failure(head: str, folder: Path) -> None:
    """docs/reports.md D10: the CLI returned 0 for failed jobs."""
    run = _submit(head, folder, "--captions-file", "/nowhere/captions.json", "--output", str(folder / "never"))
    assert run.returncode != 0
    assert "/nowhere/captions.json" in run.stdout + run.stderr
    assert not (folder / "never" / "images").exists()

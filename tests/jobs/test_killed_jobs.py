"""Jobs as processes of their own: killed, interrupted and continued. Exit codes as a scheduler sees them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workers"))
from stub_roles import png_of

from mulo_ray.seeding import image_seed
from mulo_ray.storage import Ledger, Store, object_name

SCRIPT = Path(__file__).with_name("stub_job.py")
COUNT = 24

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # a Ray of their own, twice


def start(root: Path, *options: str, sleep_s: float) -> subprocess.Popen[str]:
    captions = root / "captions.txt"
    captions.write_text("".join(f"thing number {n}\n" for n in range(COUNT)))
    command = [sys.executable, str(SCRIPT), "--captions-file", str(captions), "--output", str(root / "out")]
    env = os.environ | {"STUB_SLEEP_S": str(sleep_s)}
    command += ["--batch-size", "2", "--device", "cpu", "--groups", "1", "--in-flight", "2", *options]
    return subprocess.Popen(command, cwd=root, env=env, stderr=subprocess.PIPE, text=True)


def wait_for_images(root: Path, count: int, job: subprocess.Popen[str]) -> None:
    """Until that many image files are there; the job must live so long (a busy machine starts Ray in minutes)."""
    deadline = time.monotonic() + 240
    while len(list((root / "out" / "images").glob("*.png"))) < count:
        assert job.poll() is None, f"the job ended early: {job.stderr.read() if job.stderr else ''}"
        assert time.monotonic() < deadline, "no images in four minutes"
        time.sleep(0.05)


def test_kill_9_and_an_immediate_rerun_make_the_same_files(tmp_path: Path) -> None:
    """docs/reports.md C12: kill -9 in the middle; the rerun, started at once, ends with every file and 24 rows."""
    job = start(tmp_path, sleep_s=0.1)
    wait_for_images(tmp_path, 5, job)
    job.kill()
    job.communicate()
    job = start(tmp_path, sleep_s=0)
    _, said = job.communicate()
    assert job.returncode == 0, said
    store = Store(str(tmp_path / "out"))
    rows = Ledger(store).rows()
    assert len(rows) == COUNT
    assert {row.status for row in rows.values()} == {"ok"}
    assert set(store.list("images")) == {object_name(*pair) for pair in rows}
    for (key, sample), row in rows.items():
        assert store.get(object_name(key, sample)) == png_of(row.prompt, image_seed(0, key, sample))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_job_says_so_and_keeps_what_it_made(tmp_path: Path, number: signal.Signals) -> None:
    """reports D10: 130 with a resumable directory; ray#31451: no process is left."""
    job = start(tmp_path, sleep_s=0.1)
    wait_for_images(tmp_path, 3, job)
    time.sleep(1)
    job.send_signal(number)
    _, said = job.communicate(timeout=60)
    assert job.returncode == 130, said
    assert said.splitlines()[-1] == "interrupted; the same command continues where this one stopped"
    assert len(Ledger(Store(str(tmp_path / "out"))).rows()) >= 2
    assert not list((tmp_path / "out" / "lease").glob("*"))

"""`ray job submit` on a cluster of several nodes, one of which is lost midway; and a run that fails there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workers"))
from stub_roles import png_of

from mulo_ray.seeding import image_seed
from mulo_ray.storage import Ledger, Store, object_name

SCRIPT = Path(__file__).with_name("lose_node.py")
COUNT = 24

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of both jobs."""
    folder = tmp_path_factory.mktemp("lost-node")
    (folder / "captions.txt").write_text("".join(f"thing number {n}\n" for n in range(COUNT)))
    (folder / "fatal.txt").write_text("fatal\n")
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer | {"folder": folder}


def test_a_job_that_loses_a_node_succeeds_with_complete_output(told: dict[str, Any]) -> None:
    """Its group there is lost, and what only that node held: made again elsewhere, every image once."""
    assert "2 groups of 2 roles" in told["log"]
    assert told["lost_while_running"], told["log"][-3000:]
    assert told["status"] == "SUCCEEDED", told["log"][-3000:]
    store = Store(str(told["folder"] / "out"))
    rows = Ledger(store).rows()
    assert len(rows) == COUNT
    assert {row.status for row in rows.values()} == {"ok"}
    assert set(store.list("images")) == {object_name(*pair) for pair in rows}
    for (key, sample), row in rows.items():
        assert store.get(object_name(key, sample)) == png_of(row.prompt, image_seed(0, key, sample))
    assert told["actors_left"] == []
    assert told["placement_groups_left"] == []


def test_a_run_that_fails_is_a_failed_job(told: dict[str, Any]) -> None:
    """docs/reports.md D10; with the reason in its log."""
    assert told["failed_status"] == "FAILED"
    assert "the codebook has 16 entries" in told["failed_log"]

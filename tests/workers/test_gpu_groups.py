"""Groups on logical GPUs: every role has a device of its own, or both share the only one."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize(
    ("gpus", "sentence", "devices"),
    [(4, "2 groups of 2 roles, each on 2 GPU", "0123"), (1, "1 group of 2 roles, each on one shared GPU", "00")],
)
def test_roles_are_pinned_to_their_devices(tmp_path: Path, gpus: int, sentence: str, devices: str) -> None:
    """docs/architecture.md, Decisions; ray#64035: two GPUs per group, no placement group, distinct devices."""
    script = Path(__file__).with_name("gpu_script.py")
    command = [sys.executable, str(script), str(gpus), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-2:] == [sentence, "6 {'ok'}"]
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == [f"cuda:{device}" for device in devices]

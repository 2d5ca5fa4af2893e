"""`make bench` prints and writes its figures; what they are is the machine's affair."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_bench_writes_every_figure_with_its_command(tmp_path):
    out = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "jobs/bench.py", "--batch", "1", "--repeats", "1", "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = json.loads(out.read_text())
    assert len(lines) == 4 + 2 + 2
    for line in lines:
        assert set(line) == {"name", "value", "unit", "goal", "pass", "command"}
        assert line["value"] > 0
        assert line["name"] in done.stdout

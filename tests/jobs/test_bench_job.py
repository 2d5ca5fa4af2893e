"""`make bench` prints and writes its figures; what they are is the machine's affair."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_bench_writes_every_figure_with_its_command(tmp_path):
    out = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "jobs/bench.py", "--batch", "1", "--repeats", "1", "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = json.loads(out.read_text())
    goals = {line["name"][-7:]: line["goal"] for line in lines if line["goal"] is not None}
    assert goals == {"batch 1": 92, "batch 8": 262}, "twice the official sampler's tokens per second"
    forwards = [line for line in lines if "queries per image" in line["name"] and line["unit"] == "ms"]
    assert len(forwards) > 2
    assert {line["unit"] for line in lines} == {"s/image", "x", "GFLOP/s", "GB/s", "ms", "tokens/s"}
    names = {line["name"] for line in lines}
    for phase in ("ar, batch 1: decode", "mulo, batch 1: draft", "mulo, batch 1: verify"):
        assert {phase, f"{phase}, over the cost model"} <= names
    assert "mulo, batch 1: resample" in names, "without forwards to compare with where no token was rejected"
    for line in lines:
        assert set(line) == {"name", "value", "unit", "goal", "pass", "command"}
        assert line["value"] > 0
        assert line["pass"] is (line["goal"] is None or line["value"] >= line["goal"])
        assert line["name"] in done.stdout

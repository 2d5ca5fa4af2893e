"""`make bench-ray` prints and writes its figures with their goals; how fast the machine is is the machine's affair."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray.ray_benchmark.figures import figure, line_text

ROOT = Path(__file__).parents[2]


def test_a_goal_is_a_bound_from_the_right_side() -> None:
    slow = figure("time over ideal", 1.2, "x", "make bench-ray", at_most=1.1)
    assert (slow["goal"], slow["pass"]) == (1.1, False)
    assert "MISS" in line_text(slow)
    assert figure("share", 0.95, "x", "make bench-ray", at_least=0.9)["pass"]
    assert not figure("share", 0.85, "x", "make bench-ray", at_least=0.9)["pass"]
    assert figure("rate", 3.0, "images/s", "make bench-ray") | {"goal": None, "pass": True} == figure(
        "rate", 3.0, "images/s", "make bench-ray"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_small_sizes_of_the_stub_parts_write_every_figure(tmp_path: Path) -> None:
    """docs/operations.md, Scale: equal pictures with and without overlap, and no object spilled, on any machine."""
    out = tmp_path / "bench-ray.json"
    command = [sys.executable, "jobs/bench_ray.py", "--parts", "pipelining", "prompts", "--repeats", "1"]
    command += ["--prompts", "640", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = {line["name"]: line for line in json.loads(out.read_text())}
    assert len(lines) == 4 + 4
    for name, line in lines.items():
        assert set(line) == {"name", "value", "unit", "goal", "pass", "command"}
        assert name in done.stdout
    assert next(line["pass"] for name, line in lines.items() if "same pictures" in name)
    assert next(line["pass"] for name, line in lines.items() if "spilled" in name)

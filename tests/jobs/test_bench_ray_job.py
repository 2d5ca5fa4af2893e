"""`make bench-ray` prints and writes its figures with their goals; how fast the machine is is the machine's affair."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray.benchmark import line, line_text

ROOT = Path(__file__).parents[2]


def test_a_goal_is_a_bound_from_the_right_side() -> None:
    slow = line("time over ideal", 1.2, "x", "make bench-ray", at_most=1.1)
    assert (slow["goal"], slow["pass"]) == (1.1, False)
    assert "MISS" in line_text(slow)
    assert line("share", 0.95, "x", "make bench-ray", at_least=0.9)["pass"]
    assert not line("share", 0.85, "x", "make bench-ray", at_least=0.9)["pass"]
    assert line("rate", 3.0, "images/s", "make bench-ray") | {"goal": None, "pass": True} == line(
        "rate", 3.0, "images/s", "make bench-ray"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_small_sizes_of_the_stub_parts_write_every_line(tmp_path: Path) -> None:
    """docs/operations.md, Scale: equal pictures with and without overlap, and no object spilled, on any machine."""
    out = tmp_path / "bench-ray.json"
    command = [sys.executable, "jobs/bench_ray.py", "--parts", "pipelining", "prompts", "--repeats", "1"]
    command += ["--prompts", "640", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = {one["name"]: one for one in json.loads(out.read_text())}
    assert len(lines) == 4 + 4
    for name, one in lines.items():
        assert set(one) == {"name", "value", "unit", "goal", "pass", "command"}
        assert name in done.stdout
    assert next(one["pass"] for name, one in lines.items() if "same pictures" in name)
    assert next(one["pass"] for name, one in lines.items() if "spilled" in name)

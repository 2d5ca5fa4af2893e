"""The planner as a command: an output's report or the file itself, and one sentence where there is none."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PHASES = {"drafter_s": 1.0, "target_s": 1.0, "render_s": 0.0, "put_s": 0.0, "batch_size": 8}
RUN = {"group": "1:1", "groups": 1, "in_flight": 3, "images_per_s": 7.9, "micro_batches": 20}


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "jobs/plan.py", *args], cwd=ROOT, capture_output=True, text=True)


def test_a_plan_from_an_output(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"total": 160, "phases": PHASES | RUN}))
    ended = command("--report", str(tmp_path), "--cores", "2")
    assert ended.returncode == 0, ended.stderr
    assert "best: shared, 2 group(s), 1 in flight" in ended.stdout
    assert "simulated, 7.9 measured" in ended.stdout
    assert command("--report", str(tmp_path / "report.json"), "--cores", "2").stdout == ended.stdout
    missing = command("--report", str(tmp_path / "nowhere"), "--cores", "2")
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: --report takes the output of a finished run")

"""`jobs/compare.py runs` on two outputs as a run leaves them: a real store and a real ledger."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_outputs import png, report, resolved, stats

from mulo_ray.evaluation.report import write_report
from mulo_ray.storage import Ledger, Store, object_name
from mulo_ray.types import LedgerRow

ROOT = Path(__file__).parents[2]


def _output(folder: Path, config: dict[str, Any], seconds: float) -> Path:
    store = Store(str(folder))
    ledger = Ledger(store)
    for key in ("391895", "A weird/key"):
        name = object_name(key, 0)
        store.put(name, png())
        row = LedgerRow(key=key, sample=0, status="ok", uri=store.uri_of(name), prompt="a cat", stats=stats())
        ledger.append([row])
    write_report(store, report(total=2, made=2, seconds=seconds), ledger.rows(), config)
    return folder


def _compare(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "jobs/compare.py", "runs", *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return _output(tmp_path / "ar", resolved({"decoder": "ar", "tau": None, "redraw": None}), 8.0)


def test_table_page_and_sheets(plain: Path, tmp_path: Path) -> None:
    assert "not readable" not in (plain / "report.html").read_text()
    done = _compare(plain, _output(tmp_path / "mulo", resolved(), 2.0), "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    mulo = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["mulo"])
    assert mulo.split() == ["mulo", "2", "1", "4", "-", "40", "20", "900", "60.0%", "no"]
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"comparison.html", "comparison.json", "sheet-0-ar.png", "sheet-1-mulo.png"} <= made


def test_unlike_runs_are_bad_usage(plain: Path, tmp_path: Path) -> None:
    other = _output(tmp_path / "hot", resolved({}, {"temperature": 0.5}), 2.0)
    done = _compare(plain, other, "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "temperature" in done.stderr
    assert not (tmp_path / "out").exists()

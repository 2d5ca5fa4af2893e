"""`jobs/compare.py` on the weights of the package: measures, judges, goes on, refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray.bench.compare import compare, make_plan
from mulo_ray.bench.options import CompareOptions
from mulo_ray.errors import UsageError

ROOT = Path(__file__).parents[2]


def _compare(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "jobs/compare.py", *options]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_comparison_is_measured_judged_extended_and_guarded(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra `eval` is not installed")
    common = ("--batch", "1,2", "--limit", "2", "--target-px", "64", "--quality-n", "2", "--output", str(tmp_path))
    first = _compare("--decoders", "zipar", *common)
    assert first.returncode == 0, first.stderr[-3000:]
    done = _compare("--decoders", "zipar,exact", "--settings", "mulo from=32 tau=2", *common)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count(", 2 settings") == done.stderr.count("round ") == 12, "zipar and ar are there already"
    rows = json.loads((tmp_path / "compare.json").read_text())
    assert [(row["decoder"], row["batch"]) for row in rows] == [
        (decoder, batch) for decoder in ("ar", "ar", "zipar", "exact", "mulo") for batch in (1, 2)
    ]
    assert all(row["speedup_vs_ar"] > 0 and row["n"] == 2 and row["fd"] is None for row in rows)
    assert [row["speedup_vs_ar"] for row in rows if row["setting"] == "exact shapes"] == [1, 1]
    mulo = rows[-1]
    assert (mulo["drafter_px"], mulo["target_px"], mulo["accepted"], mulo["resampled"]) == (32, 64, 0, 64)
    exact = next(line for line in done.stdout.splitlines() if line.startswith("exact") and "pt" in line)
    assert "100.0%" in exact, "lossless: the tokens of plain decoding"
    assert (tmp_path / "compare.html").read_text().count("<svg") == 4
    again = _compare("--decoders", "zipar,exact", "--settings", "mulo from=32 tau=2", *common)
    assert again.stderr.count("round ") == again.stderr.count("pictures of") == 0
    assert json.loads((tmp_path / "compare.json").read_text()) == rows
    hot = _compare("--decoders", "zipar", "--temperature", "1.0", *common)
    assert hot.returncode == 2
    assert "temperature" in hot.stderr
    assert len(hot.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 65}, "--limit 65 captions are to be timed, and there are 64"),
        ({"decoders": "ar,fast"}, "--decoders must be among"),
        ({"headlines": "zipar s=3"}, "--headlines names 'zipar s=3', which is not compared"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_written(
    options: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        compare(CompareOptions(**options, output=str(tmp_path / "out")), "a command")
    assert not (tmp_path / "out").exists()


def test_headlines_are_judged_at_length_and_plain_decoding_with_them() -> None:
    options = CompareOptions(decoders="zipar,mulo", headlines="mulo", quality_n=50, headline_n=600)
    plan = make_plan(options)
    assert [(one.decoder, plan.pictures[one.name]) for one in plan.settings] == [
        ("ar", 600), ("ar", 600), ("zipar", 50), ("mulo", 600),
    ]  # fmt: skip
    other = make_plan(CompareOptions(decoders="zipar", quality_n=0))
    assert other.pictures == {}

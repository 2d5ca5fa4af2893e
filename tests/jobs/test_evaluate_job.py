"""`jobs/evaluate.py emoji` end to end on the weights of the package: makes, judges, writes, resumes, and refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray.evaluation.emoji.kit import load_kit
from mulo_ray.evaluation.emoji.prompts import read_eval_prompts

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"OMP_NUM_THREADS": "1"}


def _run(*options: str, timeout: int = 800, env: dict[str, str] = ENV) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "jobs/evaluate.py", *options]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=timeout)


@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_four_captions_give_every_figure_and_a_second_call_makes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra `eval` is not installed")
    options = ("emoji", "--output", str(tmp_path), "--limit", "4", "--acceptance", "2", "--batch-size", "4")
    done = _run(*options)
    assert done.returncode == 0, done.stderr[-3000:]
    page = json.loads((tmp_path / "emoji.json").read_text())
    assert (page["captions"], page["missing"], page["decoder"]) == (4, 0, "ar")
    assert set(page["ranks"]) == {prompt.key for prompt in read_eval_prompts(4)}
    figures = {line["name"]: line for line in page["figures"]}
    assert 0 <= figures["seen: top-5"]["value"] <= 1
    assert figures["seen: top-5 against real pictures"]["goal"] == 0.70
    assert figures["FD-EffLite0, 64 axes"]["value"] > 0
    for pair in ("64 -> 128", "32 -> 128"):
        assert 0 <= figures[f"{pair} px: draft cells accepted"]["value"] <= 1
    assert all(name in done.stdout for name in figures)
    assert (tmp_path / "emoji.md").read_text().count("\n|") == len(figures) + 2
    again = _run(*options)
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stderr.count("nothing left to make") == 3
    assert json.loads((tmp_path / "emoji.json").read_text())["ranks"] == page["ranks"]


@pytest.mark.timeout(200)
def test_without_the_extra_nothing_is_made_and_one_sentence_says_why(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "efficientnet_lite_pytorch.py").write_text("raise ImportError('no such package')\n")
    done = _run("emoji", "--output", str(tmp_path / "out"), env=ENV | {"PYTHONPATH": str(blocked)}, timeout=190)
    assert done.returncode == 2
    assert "pip install 'mulo-ray[eval]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "ar").exists()


def test_the_kit_of_the_package_is_small_whole_and_good() -> None:
    """Its own figures, made by `jobs/evaluate.py fit`: no pass over five thousand pictures here."""
    kit = load_kit()
    assert len(kit.judge.names) > 1900
    assert {prompt.name for prompt in read_eval_prompts()} <= set(kit.judge.names)
    assert set(kit.figures["round_trip_ranks"]) == {prompt.key for prompt in read_eval_prompts()}
    assert kit.figures["real"]["seen"]["top5"] > 0.95
    assert kit.figures["unseen_view"]["seen"]["top5"] > 0.8
    assert all(style["top5"] > 0.5 for style in kit.figures["style_left_out"].values()), "not memory alone"
    assert kit.axes.shape == (1280, 64)
    files = (ROOT / "mulo_ray" / "evaluation" / "emoji").glob("*.[njt]*")
    assert sum(path.stat().st_size for path in files) < 4 * 2**20

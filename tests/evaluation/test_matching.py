"""Blind trials: every picture with its own caption among eight, nothing in the file that gives it away."""

import json

import pytest
from run_outputs import FolderStore, add_image

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.matching import score, write_trials


def test_trials_hide_the_key_and_hold_the_caption(tmp_path):
    run, out, rows = FolderStore(tmp_path / "run"), FolderStore(tmp_path / "out"), {}
    for number in range(12):
        add_image(run, rows, f"k{number}", side_px=8 + number)
    assert write_trials(run, rows, out, seed=3) == 12
    trials, answers = (json.loads(out.get(f"{name}.json")) for name in ("trials", "answers"))
    by_bytes = {run.get(f"images/{key}.png"): row.prompt for (key, _), row in rows.items()}
    for name, choices in trials.items():
        assert len(set(choices)) == 8
        assert choices[answers[name]] == by_bytes[out.get(f"pictures/{name}.png")]
    assert len(set(answers.values())) > 3, "the true caption has no fixed place"
    assert score(answers, answers) == 12
    assert score(answers, {"00": answers["00"], "01": -1}) == 1


def test_too_few_captions(tmp_path):
    run, rows = FolderStore(tmp_path), {}
    add_image(run, rows, "only")
    with pytest.raises(UsageError, match="8 different captions or more, got 1"):
        write_trials(run, rows, run)

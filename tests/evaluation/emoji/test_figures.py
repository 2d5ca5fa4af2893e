"""Figures beside their goals, and those that the networks of the package reach on a picture set."""

from pathlib import Path

import numpy as np
import pytest
from drawings import write_drawings

from mulo_ray.evaluation.emoji.figures import figure, judge_figures, markdown, table
from mulo_ray.evaluation.emoji.held_out_figures import scale_figures, tokenizer_figures
from mulo_ray.evaluation.emoji.scoring import Rates, Scores


def _scores(top5: float) -> Scores:
    rates = {"seen": Rates(count=50, top1=0.1, top5=top5)}
    return Scores(
        splits=rates, ranks=np.zeros(50), missing=0, fd=None, fd_full=None, features=np.zeros((0, 1280), np.float32)
    )


def test_a_rate_is_held_against_that_of_real_pictures() -> None:
    real = {"seen": Rates(count=50, top1=0.5, top5=0.8), "combination": Rates(count=9, top1=1.0, top5=1.0)}
    met = {one.name: one for one in judge_figures(_scores(0.6), real, "stored")}
    ratio = met["seen: top-5 against real pictures"]
    assert (ratio.value, ratio.goal, ratio.passed) == (pytest.approx(0.75), 0.70, True)
    assert not any(name.startswith("combination") for name in met), "no caption of that split was drawn"
    missed = judge_figures(_scores(0.5), real, "stored")
    assert [one.name for one in missed if not one.passed] == ["seen: top-5 against real pictures"]
    nothing = judge_figures(_scores(0.5), {"seen": Rates(count=50, top1=0.0, top5=0.0)}, "")
    assert nothing[-1].value is None
    assert not nothing[-1].passed, "what cannot be measured is not passed"


def test_tables_name_goal_and_verdict() -> None:
    figures = [figure("tokenizer: codes used", 0.95, "share"), figure("tokenizer: PSNR at 64 px", 20.0, "dB", "why")]
    printed = table(figures).splitlines()
    assert printed[1].split("  ")[0] == "tokenizer: codes used"
    assert printed[1].rstrip().endswith("pass")
    assert "MISSED" in printed[2]
    assert printed[2].endswith("why")
    assert "| tokenizer: PSNR at 64 px | 20 dB | >= 23 | no | why |" in markdown(figures)


def test_networks_of_the_package_are_measured_on_a_picture_set(tmp_path: Path) -> None:
    import torch

    from mulo_ray.models.catalog import read_card
    from mulo_ray.models.emoji.tokenizer import load_vq

    torch.set_num_threads(1)
    write_drawings(tmp_path)
    card = read_card("emoji")
    vq = load_vq(card.folder)
    measured = tokenizer_figures(vq, tmp_path)
    assert 12 < measured["held_out_psnr_32px"] < 60
    assert 0 < measured["codes_used"] < 0.2, "two drawings need few codes"
    nats = scale_figures(card, vq, tmp_path, check=4)
    assert set(nats) == {
        f"{name}_{px}px" for name in ("nll_seen", "nll_seen_first_row", "held_out_nll_concept") for px in card.scales
    }
    assert all(0 < value < 12 for value in nats.values())
    assert {path.name for path in tmp_path.iterdir()} == {"32.npy", "64.npy", "128.npy", "pictures.jsonl"}

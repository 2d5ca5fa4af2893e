"""The stages of training on a dozen drawings: they learn, they resume, and what they publish loads."""

import json
import random

import numpy as np
import pytest
import torch

from mulo_ray.errors import UsageError
from mulo_ray.models.catalog import read_card
from mulo_ray.models.family import load_family
from mulo_ray.models.vq import VQ
from mulo_ray.training import held_out
from mulo_ray.training.captions import Described, caption
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.emoji_sources import NAMES, STYLES, read_icons
from mulo_ray.training.loop import train
from mulo_ray.training.muon import orthogonalise
from mulo_ray.training.pictures import load_pictures, rasterise
from mulo_ray.training.publish import publish
from mulo_ray.training.scales import ScaleStage
from mulo_ray.training.stages import Share
from mulo_ray.training.starts import PACKAGE_WEIGHTS
from mulo_ray.training.tokenizer import TokenizerStage
from mulo_ray.training.tokens import tokenise

pytestmark = pytest.mark.timeout(300)

COLOURS = ("red", "green", "blue", "gold")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Circles of four colours and a hand in three styles, as npm packages and as pictures; gold is held out."""
    modules = tmp_path / "node_modules"
    labels = [f"{colour} circle" for colour in COLOURS] + ["hand: raised"]
    for package in STYLES.values():
        icons = {f"{c}-circle": {"body": f'<circle cx="8" cy="8" r="6" fill="{c}"/>'} for c in COLOURS}
        icons["hand"] = {"body": "<path d='M0 0h9v9z'/>", "width": 32}
        icons |= dict.fromkeys(("hand-dark-skin-tone", "hand-light", "keycap-7"), icons["hand"])
        folder = modules / "@iconify-json" / package
        folder.mkdir(parents=True)
        (folder / "icons.json").write_text(json.dumps({"icons": icons, "width": 16, "height": 16}))
        chars = {f"1f60{i}": name for i, name in enumerate(icons)}
        (folder / "chars.json").write_text(json.dumps({**chars, "1f604-fe0f": "hand"}))
    records = [
        {
            "label": label,
            "hexcode": f"1F60{i}",
            "tags": ["round", "dot"] if i < 4 else ["palm"],
            "subgroup": 40 if i < 4 else 16,
        }
        for i, label in enumerate(labels)
    ]
    names = modules / NAMES
    (names / "en").mkdir(parents=True)
    (names / "meta").mkdir()
    (names / "en" / "data.json").write_text(json.dumps(records))
    groups = {"subgroups": {"16": "hand-fingers-open", "40": "plant-flower"}}
    (names / "meta" / "groups.json").write_text(json.dumps(groups))
    for name, lines in (("CONCEPTS", "gold circle\n"), ("COMBINATIONS", "noto blue circle\n")):
        path = tmp_path / name
        path.write_text(lines)
        monkeypatch.setattr(held_out, name, path)
    rasterise(read_icons(tmp_path), tmp_path / "data")
    return tmp_path / "data"


def test_icons_are_what_unicode_names_without_skin_tones_and_keycaps(data, tmp_path):
    icons = read_icons(tmp_path)
    assert [icon.key for icon in icons[:5]] == [*(f"noto/{colour}-circle" for colour in COLOURS), "noto/hand-raised"]
    assert len(icons) == 3 * 5
    wide = next(icon for icon in icons if icon.concept.name == "hand raised")
    assert 'viewBox="0.0 -8.0 32.0 32.0"' in wide.svg, "a wide drawing is centred on a square"
    assert not wide.concept.mirrors, "a mirrored hand is another hand"
    assert icons[0].concept.mirrors
    assert icons[0].concept.keywords == ("round", "dot")


def test_pictures_are_drawn_at_each_size_on_white(data):
    for px in (32, 64, 128):
        pictures = load_pictures(data, px)
        assert pictures.pixels.shape == (15, px, px, 3)
        red = next(i for i, record in enumerate(pictures.records) if record.name == "red circle")
        assert pictures.pixels[red, 0, 0].tolist() == [255, 255, 255]
        assert pictures.pixels[red, px // 2, px // 2].tolist() == [255, 0, 0]
    with pytest.raises(UsageError, match=r"run `python jobs/train\.py data"):
        load_pictures(data / "none", 32)


def test_held_out_pictures_are_never_trained_on(data):
    pictures = load_pictures(data, 32)
    names = {split: [pictures.records[i].key for i in pictures.split(split)] for split in ("concept", "combination")}
    assert names["concept"] == ["noto/gold-circle", "twemoji/gold-circle", "fluent/gold-circle"]
    assert names["combination"] == ["noto/blue-circle"]
    stage = ScaleStage(32, tokenise(VQ(), pictures, data), pictures.records, VQ(), batch=4)
    seen = {pictures.records[i].split for step in range(20) for i in stage._order(step, 4).tolist()}
    assert seen == {"train"}


def test_a_step_weighs_whole_pictures_and_first_rows_by_their_tokens(data):
    pictures = load_pictures(data, 32)
    stage = ScaleStage(32, tokenise(VQ(), pictures, data), pictures.records, VQ(), batch=2, early=6)
    with torch.no_grad():  # an untrained output gives every token the same nats
        stage.network.body.output.weight.normal_(std=0.5)
    measured = stage.loss(3, Share())
    whole, first = measured.values["whole"], measured.values["first_row"]
    assert measured.loss.item() == pytest.approx((2 * 16 * whole + 6 * 4 * first) / (2 * 16 + 6 * 4), rel=1e-5)
    assert abs(whole - first) > 0.01
    assert measured.pictures == 2
    assert "first_row" not in ScaleStage(32, stage._tokens, pictures.records, VQ(), batch=2).loss(3, Share()).values
    figures = stage.evaluate()
    assert figures["nll_seen_first_row"] != figures["nll_seen"]


def test_some_cells_are_read_from_another_picture_and_none_is_asked_of_it(data):
    pictures = load_pictures(data, 32)
    tokens = tokenise(VQ(), pictures, data)
    calm, noisy = (ScaleStage(32, tokens, pictures.records, VQ(), batch=4, noise=noise) for noise in (0.0, 0.5))
    numbers = torch.arange(4)[:, None].expand(4, 400)
    assert torch.equal(calm._disturbed(numbers, 7), numbers)
    read = noisy._disturbed(numbers, 7)
    assert torch.equal(read, noisy._disturbed(numbers, 7)), "a step that is repeated is the same"
    shares = (read != numbers).float().mean(1)
    assert ((read == numbers) | (read == numbers.roll(1, 0))).all()
    assert 0 < float(shares.min()) < float(shares.max()) < 0.6
    given = []
    noisy.network.register_forward_pre_hook(lambda _, args: given.append(args[1]))
    noisy.loss(3, Share())
    _, targets, _ = noisy.batch(3, Share())
    assert torch.equal(given[0], noisy._disturbed(targets, 3))


def test_the_files_list_what_the_seed_draws(tmp_path):
    concepts, combinations = held_out.read_splits()
    assert len(concepts) == 60
    assert len(combinations) == 150
    assert not {combination.split(" ", 1)[1] for combination in combinations} & concepts
    assert {combination.split(" ", 1)[0] for combination in combinations} == set(STYLES)


def test_captions_keep_a_word_that_means_the_picture_and_vary():
    described = Described(name="crying face", keywords=("sad", "tear", "unhappy"), style="noto")
    drawn = [caption(described, random.Random(seed)) for seed in range(300)]
    assert all("crying" in text or "face" in text for text in drawn)
    assert len(set(drawn)) > 150
    assert 0.5 < sum("noto" in text for text in drawn) / 300 < 0.7
    assert caption(Described(name="a dog on a sofa"), random.Random(3)).count("a dog on a sofa") == 1


def test_some_captions_go_on_to_another_picture_after_their_own():
    """The thing named first is drawn. A caption that a user wrote gets nothing added."""
    described = Described(name="crying face", keywords=("sad",), style="noto")
    drawn = [caption(described, random.Random(seed), ["red apple"]) for seed in range(300)]
    both = [text for text in drawn if "apple" in text]
    assert 20 < len(both) < 80
    assert all(text.index("face") < text.index("apple") for text in both)
    assert not any("red" in text.split() for text in both)
    written = [caption(Described(name="a dog"), random.Random(seed), ["red apple"]) for seed in range(300)]
    assert not any("apple" in text for text in written)


def test_orthogonal_updates_have_singular_values_near_one():
    matrices = torch.randn(3, 24, 16, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert 0.6 < float(values.min()) < float(values.max()) < 1.3


def test_a_scale_learns_resumes_and_is_published(data, tmp_path):
    """Ten steps, then fifty more from the checkpoint; what is published then loads as a family."""
    folder = tmp_path / "train"
    small = load_pictures(data, 32)
    tokenizer = TokenizerStage({32: small}, batch=2)
    Checkpoint(folder, "tokenizer").save(tokenizer, 1)
    vq = tokenizer.average.network
    tokens = tokenise(vq, small, folder)

    def stage():
        return ScaleStage(32, tokens, small.records, vq, batch=8)

    assert train(stage(), Checkpoint(folder, "scale-32"), steps=10) == 10
    assert train(stage(), Checkpoint(folder, "scale-32"), steps=60) == 60
    lines = [json.loads(line) for line in (folder / "scale-32.metrics.jsonl").read_text().splitlines()]
    steps = {line["step"]: line for line in lines}
    assert steps[40]["loss"] < 6.2, "a running mean that began at log 1024 = 6.9"
    assert steps[60]["nll_seen"] < steps[10]["nll_seen"]
    assert {"held_out_nll_concept", "held_out_nll_combination"} <= steps[60].keys()
    assert (folder / "scale-32.sheet.png").stat().st_size > 1000
    card = publish(data, folder, tmp_path / "family")
    assert card["scales"]["32"]["steps"] == 60
    family = load_family(read_card("emoji", str(tmp_path / "family")), "cpu")
    assert family.scale(32, batch_invariant=True).side == 4
    assert family.prompt_used("a red circle") == "red circle"
    page = (tmp_path / "family" / "README.md").read_text()
    assert "| scale-32.safetensors |" in page
    assert "15 drawings of Unicode emoji" in page


def test_the_model_card_holds_the_figures_of_these_weights_only(data, tmp_path):
    """Without stages of its own a folder gets the tokenizer they would have been trained on."""
    out, evaluation = tmp_path / "family", tmp_path / "emoji.json"
    card = publish(data, tmp_path / "nothing", out)
    assert card["tokenizer"] == json.loads((PACKAGE_WEIGHTS / "family.json").read_text())["tokenizer"]
    weights = read_card("emoji", str(out)).weights_fingerprint
    line = {
        "name": "seen: top-5",
        "value": 0.5,
        "unit": "share",
        "goal": 0.4,
        "note": "",
        "command": "jobs/evaluate.py",
    }
    evaluation.write_text(json.dumps({"weights": weights, "figures": [line]}))
    assert publish(data, tmp_path / "nothing", out, evaluation)["evaluation"]["figures"] == [line]
    assert publish(data, tmp_path / "nothing", out)["evaluation"]["figures"] == [line], "the weights are the same"
    assert "| seen: top-5 | 0.5 | share | 0.4 |" in (out / "README.md").read_text()
    evaluation.write_text(json.dumps({"weights": "others", "figures": [line]}))
    with pytest.raises(UsageError, match="is of the weights others, those published now are"):
        publish(data, tmp_path / "nothing", out, evaluation)


def test_resuming_equals_never_having_stopped(data, tmp_path):
    """Batches depend on the step alone, so a run in two parts ends with the same weights."""
    small = load_pictures(data, 32)
    vq = VQ().eval()
    tokens = tokenise(vq, small, tmp_path)

    def run(name, *parts):
        for steps in parts:
            stage = ScaleStage(32, tokens, small.records, vq, batch=4)
            # the rate schedule looks at the last step; both runs get the same one
            train(stage, Checkpoint(tmp_path / name, "s"), steps=12, seconds=1e9 if steps == 12 else 0.0)
            if steps != 12:
                for step in range(steps):
                    _one_step(stage, step)
                Checkpoint(tmp_path / name, "s").save(stage, steps)
        return torch.load(tmp_path / name / "s.pt", weights_only=True)["model"]

    whole, parts = run("whole", 12), run("parts", 5, 12)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def _one_step(stage, step):
    from mulo_ray.training.loop import rate, set_rate
    from mulo_ray.training.precision import forward_precision

    set_rate(stage.optimizers, rate(step, 12))
    for optimizer in stage.optimizers:
        optimizer.zero_grad()
    with forward_precision(torch.device("cpu")):
        loss = stage.loss(step, Share()).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(stage.network.parameters(), 1.0)
    for optimizer in stage.optimizers:
        optimizer.step()
    stage.average.update(stage.network)


def test_the_tokenizer_learns_and_goes_on_from_its_checkpoint(data, tmp_path):
    sets = {px: load_pictures(data, px) for px in (128, 64, 32)}
    train(TokenizerStage(sets, batch=4), Checkpoint(tmp_path, "tokenizer"), steps=4)
    before = torch.load(tmp_path / "tokenizer.pt", weights_only=True)
    assert before["step"] == 4
    train(TokenizerStage(sets, batch=4), Checkpoint(tmp_path, "tokenizer"), steps=30)
    after = torch.load(tmp_path / "tokenizer.pt", weights_only=True)
    assert after["step"] == 30
    lines = [json.loads(line) for line in (tmp_path / "tokenizer.metrics.jsonl").read_text().splitlines()]
    first, last = (next(line for line in lines if line["step"] == step) for step in (4, 30))
    for px in (32, 64, 128):
        assert last[f"held_out_psnr_{px}px"] > first[f"held_out_psnr_{px}px"]


def test_published_weights_start_a_run_without_a_checkpoint(data, tmp_path):
    vq = VQ()
    stage = TokenizerStage({32: load_pictures(data, 32)}, batch=2)
    assert train(stage, Checkpoint(tmp_path, "tokenizer", published=(vq.state_dict(), 7)), steps=7) == 7
    assert torch.equal(stage.average.network.codebook, vq.codebook), "all steps were done before"


def test_two_workers_share_every_batch():
    batch = torch.arange(7)
    shares = [Share(rank=rank, world=2).of(batch).tolist() for rank in range(2)]
    assert sorted(np.concatenate(shares).tolist()) == batch.tolist()

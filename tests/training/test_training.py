"""The stages of training on a dozen drawings: they learn, they resume, and what they publish loads."""

import json

import pytest
import torch

from mulo_ray.errors import UsageError
from mulo_ray.models.catalog import read_card
from mulo_ray.models.family import load_family
from mulo_ray.models.vq import VQ
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.emoji_sources import STYLES, read_icons
from mulo_ray.training.muon import orthogonalise
from mulo_ray.training.pictures import load_pictures, rasterise
from mulo_ray.training.publish import publish
from mulo_ray.training.scales import train_scale
from mulo_ray.training.tokenizer import train_tokenizer

COLOURS = ("red", "green", "blue", "gold")


@pytest.fixture
def data(tmp_path):
    """Circles of four colours in three styles, as icon packages and as pictures."""
    for package in STYLES.values():
        icons = {f"{c}-circle": {"body": f'<circle cx="8" cy="8" r="6" fill="{c}"/>'} for c in COLOURS}
        icons["hand"] = {"body": "<path d='M0 0h9v9z'/>", "width": 32}
        icons |= dict.fromkeys(("hand-dark-skin-tone", "hand-light", "keycap-7"), icons["hand"])
        folder = tmp_path / "node_modules" / "@iconify-json" / package
        folder.mkdir(parents=True)
        (folder / "icons.json").write_text(json.dumps({"icons": icons, "width": 16, "height": 16}))
    rasterise(read_icons(tmp_path), tmp_path / "data")
    return tmp_path / "data"


def test_icons_leave_out_skin_tones_and_keycaps(data, tmp_path):
    icons = read_icons(tmp_path)
    assert [icon.key for icon in icons[:5]] == sorted([f"noto/{colour}-circle" for colour in COLOURS] + ["noto/hand"])
    assert len(icons) == 3 * 5
    wide = next(icon for icon in icons if icon.name == "hand")
    assert 'viewBox="0.0 -8.0 32.0 32.0"' in wide.svg, "a wide drawing is centred on a square"


def test_pictures_are_drawn_at_each_size_on_white(data):
    for px in (32, 64, 128):
        pictures = load_pictures(data, px)
        assert pictures.pixels.shape == (15, px, px, 3)
        red = pictures.names.index("red circle")
        assert pictures.pixels[red, 0, 0].tolist() == [255, 255, 255]
        assert pictures.pixels[red, px // 2, px // 2].tolist() == [255, 0, 0]
    with pytest.raises(UsageError, match=r"run `python jobs/train\.py data"):
        load_pictures(data / "none", 32)


def test_orthogonal_updates_have_singular_values_near_one():
    matrices = torch.randn(3, 24, 16, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert 0.6 < float(values.min()) < float(values.max()) < 1.3


@pytest.mark.timeout(120)
def test_a_scale_learns_resumes_and_is_published(data, tmp_path):
    """Ten steps, then fifty more from the checkpoint; what is published then loads as a family."""
    torch.manual_seed(0)
    folder = tmp_path / "train"
    vq = VQ().eval().requires_grad_(False)
    Checkpoint(folder, "tokenizer").save(vq, [], {"step": 1})
    train_scale(32, data, folder, vq, steps=10, batch=8)
    first = torch.load(folder / "scale-32.pt", weights_only=True)
    assert first["extra"]["step"] == 10
    train_scale(32, data, folder, vq, steps=60, batch=8)
    second = torch.load(folder / "scale-32.pt", weights_only=True)
    assert second["extra"]["step"] == 60
    lines = [json.loads(line) for line in (folder / "scale-32.metrics.jsonl").read_text().splitlines()]
    assert lines[0]["step"] == 50
    assert lines[0]["loss"] < 6.0, "a running mean that began at log 1024 = 6.9"
    card = publish(data, folder, tmp_path / "family")
    assert card["scales"]["32"]["steps"] == 60
    family = load_family(read_card("emoji", str(tmp_path / "family")), "cpu")
    assert family.scale(32, batch_invariant=True).side == 4
    assert family.prompt_used("a red circle") == "red circle"


@pytest.mark.timeout(120)
def test_the_tokenizer_learns_and_goes_on_from_its_checkpoint(data, tmp_path):
    train_tokenizer(data, tmp_path / "train", steps=4)
    before = torch.load(tmp_path / "train" / "tokenizer.pt", weights_only=True)
    assert before["extra"]["step"] == 4
    train_tokenizer(data, tmp_path / "train", steps=6)
    after = torch.load(tmp_path / "train" / "tokenizer.pt", weights_only=True)
    assert after["extra"]["step"] == 6
    assert not torch.equal(before["model"]["codebook"], after["model"]["codebook"])
    lines = [json.loads(line) for line in (tmp_path / "train" / "tokenizer.metrics.jsonl").read_text().splitlines()]
    assert {line["px"] for line in lines} == {32, 64, 128}


def test_published_weights_start_a_run_without_a_checkpoint(data, tmp_path):
    vq = VQ()
    trained = train_tokenizer(data, tmp_path, steps=7, published={"model": vq.state_dict(), "step": 7})
    assert torch.equal(trained.codebook, vq.codebook), "all steps were done before"

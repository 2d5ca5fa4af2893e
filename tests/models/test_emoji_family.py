"""The weights inside the package: they load, fit their card, and keep the oracles of docs/method.md section 6."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch

from mulo_ray.config import DecoderOptions, SamplingOptions
from mulo_ray.decoding.interfaces import generate
from mulo_ray.errors import CheckpointError, UsageError
from mulo_ray.models.catalog import read_card
from mulo_ray.models.family import load_family
from mulo_ray.models.roles import RoleSpec, build_drafter, build_target
from mulo_ray.seeding import image_seed

CAPTIONS = ("a red apple", "flag of Japan", "a cat looking at a slice of pizza")
DRAFT = DecoderOptions(
    decoder="mulo", tau=0.05, neighbours=8, radius=1, redraw="islands", rows_per_cycle=0, zipar_window=2,
    upsampler="pixel", refresh_cache=False,
)  # fmt: skip
SPEC = RoleSpec(
    family="emoji", weights=None, drafter_px=32, target_px=64, decoding=DRAFT, batch_invariant=True, device="cpu",
    sampling=SamplingOptions(guidance=2.0, temperature=0.7, top_k=0, top_p=1.0),
)  # fmt: skip


def decode(captions=CAPTIONS, **changes):
    """PNG bytes and costs of captions decoded together, seed by caption."""
    spec = dataclasses.replace(SPEC, decoding=dataclasses.replace(DRAFT, **changes))
    target = build_target(spec)
    drafter = build_drafter(spec).decoder if spec.decoding.decoder == "mulo" else None
    used = [target.prompt_used(text) for text in captions]
    generation = generate(target.decoder, drafter, target.request(used, [image_seed(0, text, 0) for text in captions]))
    return target.render(generation.tokens_BHW, list(captions)), generation


def test_card_names_what_is_there():
    card = read_card("emoji")
    assert card.scales == {32: 4, 64: 8, 128: 16}
    assert card.default_pair == (64, 128)
    family = load_family(card, "cpu")
    for px, side in card.scales.items():
        assert family.scale(px, batch_invariant=True).side == side
    assert sum(path.stat().st_size for path in card.folder.iterdir()) < 35 * 2**20


@pytest.mark.parametrize("rows_per_cycle", [0, 2])
def test_tau_above_one_with_raster_redraw_is_plain_decoding(rows_per_cycle):
    """Oracle 1 on trained weights, byte for byte of the files."""
    plain, _ = decode(decoder="ar")
    relaxed, generation = decode(tau=1.01, redraw="raster", rows_per_cycle=rows_per_cycle)
    assert relaxed == plain
    assert all(image.accepted == 0 for image in generation.stats)


def test_an_image_does_not_know_its_batch():
    """Oracle 6 on trained weights."""
    together, _ = decode()
    assert [decode((caption,))[0][0] for caption in CAPTIONS] == together
    assert len(set(together)) == 3


def test_trained_scales_agree_more_than_chance():
    """A lifted draft is accepted far more often than the mass of eight random codes (0.8 %) would allow."""
    _, generation = decode(tau=0.05)
    accepted = sum(image.accepted for image in generation.stats) / (3 * 64)
    assert accepted > 0.1


def test_unknown_family_and_size_are_sentences():
    with pytest.raises(UsageError, match="did you mean 'emoji'"):
        read_card("emojis")
    with pytest.raises(CheckpointError, match="no scale of 256 px"):
        load_family(read_card("emoji"), "cpu").scale(256, batch_invariant=True)


def test_a_directory_of_weights_must_be_whole(tmp_path):
    folder = tmp_path / "weights"
    shutil.copytree(read_card("emoji").folder, folder)
    assert read_card("emoji", str(folder)).weights_fingerprint == read_card("emoji").weights_fingerprint
    (folder / "scale-64.safetensors").write_bytes(b"torn")
    assert read_card("emoji", str(folder)).weights_fingerprint != read_card("emoji").weights_fingerprint
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load_family(read_card("emoji", str(folder)), "cpu").scale(64, batch_invariant=True)
    (folder / "scale-64.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"names scale-64\.safetensors, which is not there"):
        read_card("emoji", str(folder))
    with pytest.raises(CheckpointError, match="no family card"):
        read_card("emoji", str(Path(tmp_path) / "none"))


def test_the_drafter_and_the_target_share_a_codebook():
    family = load_family(read_card("emoji"), "cpu")
    tokens = torch.arange(16).view(1, 4, 4) * 60
    assert family.resampler("nearest", 2).up(tokens).shape == (1, 8, 8)
    assert family.pixels(tokens).shape == (1, 32, 32, 3)

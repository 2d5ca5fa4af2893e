"""A weights folder of Tar: what is checked before anything starts, fingerprints, pairs, pixels."""

import dataclasses
from pathlib import Path

import fsspec
import pytest
import torch

from mulo_ray.config import DecoderOptions, JobConfig, ModelOptions
from mulo_ray.errors import CheckpointError, PromptError, UsageError
from mulo_ray.models.catalog import check_weights, read_card
from mulo_ray.models.convert import convert
from mulo_ray.models.family import load_family
from mulo_ray.models.janus_vq import janus_vq
from mulo_ray.models.tar.family import to_bytes
from mulo_ray.models.vq_sizes import VQSizes
from mulo_ray.resolve import resolve
from tests.support.official import reference, reference_file
from tests.support.tiny_tar import CONFIG, FAMILY, replaced, rewrite_card, write_tiny_tar

SIDES = {8, 16}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_tar(tmp_path / "weights")
    return tmp_path / "weights"


def test_the_official_containers_pass_and_load(folder: Path) -> None:
    card = read_card(FAMILY, str(folder))
    check_weights(card, SIDES)
    assert (card.scales, card.default_pair, card.conditioner) == ({8: 4, 16: 8}, (8, 16), True)
    family = load_family(card, "cpu")
    condition = family.condition(["a red cat", "a dog"])
    assert condition["features_BPC"].shape == (2, 9, 24)
    for px, side in card.scales.items():
        scale = family.scale(px, batch_invariant=True)
        assert scale.side == side
        assert scale.start(condition, 3.0).first_logits_BV.shape == (2, 64)
    assert family.pixels(torch.zeros(2, 8, 8, dtype=torch.int64)).shape == (2, 16, 16, 3)


def test_converted_files_are_the_same_family(folder: Path, tmp_path: Path) -> None:
    """Arguments travel in the header, so a wrong one is still told."""
    convert(folder, tmp_path / "new")
    (folder / "language").rename(tmp_path / "new" / "language")
    card = read_card(FAMILY, str(tmp_path / "new"))
    check_weights(card, SIDES)
    before, after = (load_family(read_card(FAMILY, str(f)), "cpu") for f in (folder, tmp_path / "new"))
    assert torch.equal(
        before.scale(16, batch_invariant=True).body.abs_pe, after.scale(16, batch_invariant=True).body.abs_pe
    )
    rewrite_card(tmp_path / "new", semantic_sides=[4, 2, 1])
    with pytest.raises(CheckpointError, match=r"low\.safetensors does not fit .* cls_token_num 9 \(16 expected\)"):
        check_weights(read_card(FAMILY, str(tmp_path / "new")), SIDES)


def test_bare_tensors_and_half_precision_load(folder: Path) -> None:
    """docs/reports.md B1 and B2: no arguments beside the tensors, bfloat16 and float16 on a CPU, pixels at the end."""
    bare = torch.load(folder / "low.pth", weights_only=True)["model"]["sd"]
    torch.save({f"module.{name}": value.half() for name, value in bare.items()}, folder / "low.pth")
    content = torch.load(folder / "ta_tok.pth", weights_only=True)
    content["model"]["sd"] = {name: value.bfloat16() for name, value in content["model"]["sd"].items()}
    torch.save(content, folder / "ta_tok.pth")
    card = read_card(FAMILY, str(folder))
    check_weights(card, SIDES)
    family = load_family(card, "cpu")
    condition = family.condition(["a red cat"])
    assert condition["features_BPC"].dtype == torch.float32
    assert family.scale(8, batch_invariant=True).start(condition, 3.0).first_logits_BV.dtype == torch.float32
    assert family.pixels(torch.zeros(1, 8, 8, dtype=torch.int64)).dtype == torch.uint8


def test_positions_of_another_shape_are_an_error_and_never_dropped(folder: Path) -> None:
    """The official loader drops a table that does not fit and goes on with random positions."""
    content = torch.load(folder / "low.pth", weights_only=True)
    content["model"]["sd"]["abs_pe"] = torch.zeros(1, 30, 32)
    content["model"]["args"] = {}
    torch.save(content, folder / "low.pth")
    with pytest.raises(CheckpointError, match=r"abs_pe: shape \(1, 30, 32\), expected \(1, 24, 32\)"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)


def test_fixed_positions_lie_in_the_file_too(folder: Path) -> None:
    content = torch.load(folder / "low.pth", weights_only=True)
    content["model"]["args"]["use_fixed_pe"] = True
    content["model"]["sd"]["abs_pe"] = torch.arange(24 * 32).view(1, 24, 32).float().sin()
    torch.save(content, folder / "low.pth")
    scale = load_family(read_card(FAMILY, str(folder)), "cpu").scale(8, batch_invariant=True)
    assert torch.equal(scale.body.abs_pe, content["model"]["sd"]["abs_pe"])


def test_a_coarser_semantic_grid_is_one_line_of_the_card(folder: Path) -> None:
    rewrite_card(folder, semantic_scale=1)
    card = read_card(FAMILY, str(folder))
    check_weights(card, SIDES)
    family = load_family(card, "cpu")
    condition = family.condition(["a cat"])
    assert condition["features_BPC"].shape == (1, 4, 24)
    assert family.scale(8, batch_invariant=True).start(condition, 3.0).first_logits_BV.shape == (1, 64)


def test_files_that_are_missing_are_named(folder: Path) -> None:
    (folder / "low.pth").unlink()
    check_weights(read_card(FAMILY, str(folder)), {16})
    with pytest.raises(CheckpointError, match=r"needs low\.pth \(or its \.safetensors\)"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)
    (folder / "ta_tok.pth").unlink()
    with pytest.raises(CheckpointError, match=r"needs ta_tok\.pth"):
        check_weights(read_card(FAMILY, str(folder)), {16})
    (folder / "high.pth").unlink()
    with pytest.raises(CheckpointError, match=r"holds none of low\.pth, high\.pth"):
        read_card(FAMILY, str(folder))


def test_codes_of_another_count_are_refused_with_both_numbers(folder: Path) -> None:
    """docs/reports.md A7: for the image's codes, and for those between the language model and AR-DTok."""
    rewrite_card(folder, vocab=32)
    with pytest.raises(CheckpointError, match="32 codes in its image models and 64 in its tokenizer"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)
    rewrite_card(folder, vocab=80)
    with pytest.raises(CheckpointError, match=r"made with vocab_size 64 \(80 expected\)"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)
    rewrite_card(folder, vocab=64, semantic_sizes=dataclasses.asdict(CONFIG.semantic_sizes) | {"codes": 128})
    with pytest.raises(CheckpointError, match=r"knows 80 codes .* set up with 128"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)


def test_a_declared_tail_of_unused_codes_is_never_drawn(folder: Path) -> None:
    """reports A7: 80 rows in the head, 64 codes in the codebook, as the card says."""
    write_tiny_tar(folder, replaced(vocab=80))
    card = read_card(FAMILY, str(folder))
    check_weights(card, SIDES)
    family = load_family(card, "cpu")
    scale = family.scale(8, batch_invariant=True)
    assert scale.codebook_size == 64
    assert scale.start(family.condition(["a cat"]), 3.0).first_logits_BV.shape == (1, 64)


def test_a_language_folder_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "language" / "config.json").write_text('{"model_type": "t5", "vocab_size": 32128}')
    with pytest.raises(CheckpointError, match="holds a t5 of 32128 words; expected a qwen2"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)


def test_a_scale_drafts_on_no_other_grid(folder: Path) -> None:
    family = load_family(read_card(FAMILY, str(folder)), "cpu")
    with pytest.raises(CheckpointError, match="learned positions for 4 x 4 cells and cannot draft on 8"):
        family.scale(8, batch_invariant=True, side=8)


def test_chain_drafts_on_the_targets_grid_are_refused_before_anything_starts() -> None:
    card = read_card("tar-1.5b", "random")
    model = ModelOptions(family="tar-1.5b", weights="random", target_px=512)
    chain = DecoderOptions(decoder="speculative")
    with pytest.raises(UsageError, match="know their own grid only; use --decoder mulo or exact"):
        resolve(JobConfig(model=model, decoding=chain), card)
    own = resolve(JobConfig(model=dataclasses.replace(model, drafter_px=512), decoding=chain), card)
    assert own.model.drafter_px == 512


def test_the_fingerprint_is_that_of_the_contents(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_card(FAMILY, str(folder)).weights_fingerprint
    monkeypatch.setenv("MULO_RAY_CACHE", str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    store.put(str(folder), "/tar-bucket", recursive=True)
    remote = read_card(FAMILY, "memory://tar-bucket")
    check_weights(remote, SIDES)
    assert remote.weights_fingerprint == first
    rewrite_card(folder, repetition_penalty=1.1)
    assert read_card(FAMILY, str(folder)).weights_fingerprint != first


@pytest.mark.parametrize(("drafter", "target"), [(256, 512), (256, 1024), (512, 1024)])
def test_the_published_pairs(drafter: int, target: int) -> None:
    card = read_card("tar-7b", "random")
    model = ModelOptions(family="tar-7b", weights="random", drafter_px=drafter, target_px=target)
    resolved = resolve(JobConfig(model=model, decoding=DecoderOptions()), card)
    assert (resolved.model.drafter_px, resolved.model.target_px) == (drafter, target)
    assert (resolved.sampling.guidance, resolved.sampling.top_k, resolved.sampling.top_p) == (4.0, 0, 1.0)
    check_weights(card, {drafter, target})


def test_random_weights_have_their_own_fingerprint_and_need_a_name() -> None:
    assert read_card("tar-7b", "random").weights_fingerprint != read_card("tar-1.5b", "random").weights_fingerprint
    with pytest.raises(UsageError, match="give --weights a folder, a URI or a hub id"):
        read_card(FAMILY)


def test_pixels_are_rounded_as_the_official_code_does() -> None:
    """docs/reports.md B2: 0 is 127 here, and 128 for LlamaGen; then whole pictures."""
    assert to_bytes(torch.tensor([-1.2, -1.0, 0.0, 1.0, 1.2])).tolist() == [0, 0, 127, 255, 255]
    outputs = reference("ar_dtok_lo")
    sizes = VQSizes(multipliers=(1, 1), channels=32, latent=32, codes=128)
    vq = janus_vq(sizes, reference_file("vq_tiny.pt"))
    tokens = outputs["greedy_cfg4_tokens"].long().view(3, 4, 4)
    images = to_bytes(vq.decode_signed(tokens)).permute(0, 2, 3, 1)
    difference = (images.int() - outputs["image_uint8_greedy_cfg4"].int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).float().mean() < 0.001


def test_an_empty_caption_is_an_error_of_its_row(folder: Path) -> None:
    family = load_family(read_card(FAMILY, str(folder)), "cpu")
    assert family.prompt_used("  A cat, 50% of <it>\n") == "A cat, 50% of <it>"
    with pytest.raises(PromptError, match="the caption is empty"):
        family.prompt_used(" \n")

"""A weights folder of LlamaGen: what is checked before anything starts, fingerprints, random weights."""

import dataclasses
from pathlib import Path

import fsspec
import pytest
import torch

from mulo_ray.config import DecoderOptions, JobConfig, ModelOptions
from mulo_ray.engine import family_engine
from mulo_ray.errors import CheckpointError, PromptError, UsageError
from mulo_ray.models.catalog import check_weights, read_card
from mulo_ray.models.convert import convert
from mulo_ray.models.family import load_family
from mulo_ray.models.llamagen.config import ScaleFiles
from mulo_ray.models.vq_sizes import VQSizes
from mulo_ray.resolve import resolve
from tests.support.tiny_llamagen import CONFIG, FAMILY, replaced, rewrite_card, write_tiny_llamagen

SIDES = {8, 16}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_llamagen(tmp_path / "weights")
    return tmp_path / "weights"


def test_the_official_containers_pass_and_load(folder: Path) -> None:
    card = read_card(FAMILY, str(folder))
    check_weights(card, SIDES)
    assert (card.scales, card.default_pair) == ({8: 4, 16: 8}, (8, 16))
    family = load_family(card, "cpu")
    condition = family.condition(["a red cat", "a dog"])
    for px, side in card.scales.items():
        scale = family.scale(px, batch_invariant=True)
        assert scale.side == side
        assert scale.start(condition, 3.0).first_logits_BV.shape == (2, 64)
    assert family.pixels(torch.zeros(2, 8, 8, dtype=torch.int64)).shape == (2, 16, 16, 3)


def test_converted_files_are_the_same_family(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "new")
    (folder / "t5").rename(tmp_path / "new" / "t5")
    card = read_card(FAMILY, str(tmp_path / "new"))
    check_weights(card, SIDES)
    before = load_family(read_card(FAMILY, str(folder)), "cpu").scale(16, batch_invariant=True)
    after = load_family(card, "cpu").scale(16, batch_invariant=True)
    assert torch.equal(before.body.output.weight, after.body.output.weight)


@pytest.mark.parametrize(
    ("sizes", "head_size"), [({"dim": 80, "heads": 4}, 20), ({"dim": 48, "layers": 1, "heads": 6}, 8)]
)
def test_other_sizes_in_other_containers_load(tmp_path: Path, sizes: dict[str, int], head_size: int) -> None:
    """Bare and `module` files, a distributed wrapper, a stride of four: whatever family.json states."""
    vq = VQSizes(multipliers=(1, 1, 2), channels=32, latent=32, codes=48, res_blocks=1)
    write_tiny_llamagen(tmp_path, replaced(**sizes, vocab=48, vq=vq))
    low, high = (torch.load(tmp_path / name, weights_only=False)["model"] for name in ("low.pt", "high.pt"))
    torch.save({f"module.{name}": value for name, value in low.items()}, tmp_path / "low.pt")
    torch.save({"module": high}, tmp_path / "high.pt")
    card = read_card(FAMILY, str(tmp_path))
    check_weights(card, SIDES)
    family = load_family(card, "cpu")
    scale = family.scale(8, batch_invariant=False)
    assert (scale.side, scale.codebook_size, scale.body.config.head_dim) == (2, 48, head_size)
    assert torch.equal(scale.body.output.weight, low["output.weight"])
    tokens = torch.randint(48, (1, 2, 2), generator=torch.Generator().manual_seed(1))
    lifted = family.resampler("pixel", 2).up(tokens)
    assert lifted.shape == (1, 4, 4)
    assert family.pixels(lifted).shape == (1, 16, 16, 3)


def test_the_fingerprint_is_that_of_the_contents(folder: Path, tmp_path: Path) -> None:
    first = read_card(FAMILY, str(folder)).weights_fingerprint
    assert read_card(FAMILY, str(folder)).weights_fingerprint == first
    folder = folder.rename(tmp_path / "elsewhere")
    assert read_card(FAMILY, str(folder)).weights_fingerprint == first
    content = bytearray((folder / "high.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "high.pt").write_bytes(content)
    assert read_card(FAMILY, str(folder)).weights_fingerprint != first


def test_a_node_with_other_weights_refuses(folder: Path) -> None:
    """The driver's fingerprint goes with the roles; a node whose folder of that name holds other files says so."""
    model = ModelOptions(family=FAMILY, weights=str(folder))
    engine = family_engine(model)
    roles = engine.roles(resolve(JobConfig(model=model, decoding=DecoderOptions(decoder="ar")), engine.card))
    write_tiny_llamagen(folder, replaced(layers=1))
    with pytest.raises(CheckpointError, match=r"on this node .* are not those on the driver's"):
        roles.target("cpu")


def test_a_uri_is_fetched_with_its_text_folder_and_nothing_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULO_RAY_CACHE", str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    (folder / "other_model.pt").write_bytes(b"large")
    store.put(str(folder), "/llamagen-bucket", recursive=True)
    card = read_card(FAMILY, "memory://llamagen-bucket")
    check_weights(card, SIDES)
    assert card.weights_fingerprint == read_card(FAMILY, str(folder)).weights_fingerprint
    assert {path.name for path in card.folder.iterdir() if not path.name.startswith(".")} == {
        "family.json", "low.pt", "high.pt", "vq.pt", "t5",
    }  # fmt: skip
    assert load_family(card, "cpu").conditioner("cpu") is not None


def test_a_missing_scale_is_named_only_when_it_is_used(folder: Path) -> None:
    (folder / "low.pt").unlink()
    card = read_card(FAMILY, str(folder))
    check_weights(card, {16})
    with pytest.raises(CheckpointError, match=r"8 px scale of llamagen-t2i-xl needs low\.pt"):
        check_weights(card, SIDES)
    (folder / "high.pt").unlink()
    with pytest.raises(CheckpointError, match=r"holds none of low\.pt, high\.pt"):
        read_card(FAMILY, str(folder))


def test_codes_of_another_count_are_refused_with_both_numbers(folder: Path) -> None:
    """docs/reports.md A7: a body of 64 codes, a tokenizer of 32; then a pair in which one body has 32."""
    write_tiny_llamagen(folder, replaced(vocab=32, vq=VQSizes(multipliers=(1, 1), channels=32, latent=32, codes=32)))
    rewrite_card(folder, vocab=64, vq={"multipliers": [1, 1], "channels": 32, "latent": 32, "codes": 64})
    with pytest.raises(CheckpointError, match=r"low\.pt speaks 32 codes and the tokenizer has 64"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)
    rewrite_card(folder, vocab=32)
    with pytest.raises(CheckpointError, match="32 codes in its image model and 64 in its tokenizer"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)


def test_two_codebooks_of_one_size_are_refused_by_fingerprint(folder: Path) -> None:
    """reports A7: the drafter's tokenizer has the same codes in another order."""
    content = torch.load(folder / "vq.pt", weights_only=True)
    table = content["model"]["quantize.embedding.weight"]
    scales = {
        "8": {"weights": "low.pt", "tokenizer": "other.pt"},
        "16": {"weights": "high.pt", "tokenizer": "vq.pt"},
    }
    rewrite_card(folder, scales=scales)
    torch.save(content, folder / "other.pt")
    check_weights(read_card(FAMILY, str(folder)), SIDES)
    content["model"]["quantize.embedding.weight"] = table.flip(0)
    torch.save(content, folder / "other.pt")
    with pytest.raises(CheckpointError, match=r"different codebooks: \w{16} in other\.pt of 8 px and \w{16} in vq\.pt"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)


def test_a_declared_tail_of_unused_codes_is_never_drawn(folder: Path) -> None:
    """reports A7: 80 rows in the head, 64 codes in the codebook, as the card says."""
    write_tiny_llamagen(folder, replaced(vocab=80))
    card = read_card(FAMILY, str(folder))
    check_weights(card, SIDES)
    family = load_family(card, "cpu")
    scale = family.scale(8, batch_invariant=True)
    assert scale.codebook_size == 64
    assert scale.start(family.condition(["a cat"]), 3.0).first_logits_BV.shape == (1, 64)


def test_a_file_of_other_sizes_lists_what_differs(folder: Path) -> None:
    rewrite_card(folder, layers=3, dim=64)
    with pytest.raises(CheckpointError, match=r"low\.pt does not fit .* and \d+ more"):
        check_weights(read_card(FAMILY, str(folder)), SIDES)


@pytest.mark.parametrize("changes", [{"family": "llamagen-c2i-b"}, {"depth": 3}, {"scales": {"8": {"file": "x"}}}])
def test_a_card_that_says_other_things_is_refused(folder: Path, changes: dict[str, object]) -> None:
    rewrite_card(folder, **changes)
    with pytest.raises(CheckpointError, match=r"another family|does not describe a family"):
        read_card(FAMILY, str(folder))


def test_random_weights_have_the_real_shapes_and_their_own_fingerprint() -> None:
    card = read_card(FAMILY, "random")
    check_weights(card, {256, 512})
    assert card.scales == {256: 16, 512: 32}
    assert card.weights_fingerprint != read_card("llamagen-c2i-xl", "random").weights_fingerprint
    with pytest.raises(UsageError, match="give --weights a folder, a URI or a hub id"):
        read_card(FAMILY)


def test_classes_are_named_by_number(tmp_path: Path) -> None:
    """One slot of condition, no text stage; the caption is the number of a class."""
    files = ScaleFiles(weights="c2i.pt", tokenizer="vq.pt")
    config = replaced(kind="c2i", classes=10, scales={8: files})
    write_tiny_llamagen(tmp_path, config)
    rewrite_card(tmp_path, family="llamagen-c2i-b")
    family = load_family(read_card("llamagen-c2i-b", str(tmp_path)), "cpu")
    assert family.prompt_used(" 07 ") == "7"
    assert family.conditioner("cpu") is None
    condition = family.condition(["7", "0"])
    assert family.scale(8, batch_invariant=True).start(condition, 2.0).first_logits_BV.shape == (2, 64)
    for text in ("10", "cat", "-1", "\u0663"):
        with pytest.raises(PromptError, match="number of an ImageNet class, 0 to 9"):
            family.prompt_used(text)


def test_random_weights_are_the_same_in_every_process() -> None:
    card = read_card(FAMILY, "random")
    small = {name: getattr(CONFIG, name) for name in ("dim", "layers", "heads", "vocab", "vq", "scales")}
    card = dataclasses.replace(card, config=dataclasses.replace(card.config, **small))
    one, two = (load_family(card, "cpu").scale(16, batch_invariant=True).body for _ in range(2))
    assert torch.equal(one.output.weight, two.output.weight)
    assert not torch.equal(one.layers[0].attention.wo.weight, one.layers[1].attention.wo.weight)

"""The VQ tokenizer against official outputs, and against the key tables of the published files."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mulo_ray.errors import CheckpointError
from mulo_ray.models.checkpoint import parameter_count, renamed
from mulo_ray.models.containers import load_state
from mulo_ray.models.janus_vq import IGNORABLE, RENAMES, VQCodec, codebook_fingerprint, janus_vq, vq_network
from mulo_ray.models.llamagen.family import to_bytes
from mulo_ray.models.vq_sizes import PARAMETERS, VQ_8, VQ_16, VQSizes
from tests.support.official import reference, reference_file

TINY = VQSizes(multipliers=(1, 1), channels=32, latent=32, codes=128)


@pytest.fixture(scope="module")
def codec() -> VQCodec:
    return janus_vq(TINY, reference_file("vq_tiny.pt"))


@pytest.mark.parametrize(("size", "side"), [("lo", 4), ("hi", 8)])
def test_pixels_are_the_official_ones(codec: VQCodec, size: str, side: int) -> None:
    outputs = reference("vq_tiny")
    signed = codec.decode_signed(outputs[f"{size}_codes"].long().view(-1, side, side))
    torch.testing.assert_close(signed, outputs[f"{size}_decoded"], atol=1e-4, rtol=0)
    _same_bytes(to_bytes(signed), outputs[f"{size}_decoded_uint8_127.5x+128"], signed * 127.5 + 128, 0.0)
    pixels = codec.decode(outputs[f"{size}_codes"].long().view(-1, side, side))
    rounded = (pixels * 255).round().to(torch.uint8)
    _same_bytes(rounded, outputs[f"{size}_decoded_uint8_save_image"], pixels * 255, 0.5)


def _same_bytes(ours: Tensor, official: Tensor, exact: Tensor, edge: float) -> None:
    """Equal, but for values that lie on an edge between two bytes: which side they fall on is the processor's."""
    off_edge = ((exact - edge) - (exact - edge).round()).abs() > 0.02
    assert off_edge.float().mean() > 0.9
    assert torch.equal(ours[off_edge], official[off_edge])
    assert (ours.int() - official.int()).abs().max() <= 1


@pytest.mark.parametrize("size", ["lo", "hi"])
def test_codes_are_the_official_ones(codec: VQCodec, size: str) -> None:
    outputs = reference("vq_tiny")
    pixels = (outputs[f"{size}_encode_image"] + 1) / 2
    assert torch.equal(codec.encode(pixels).flatten(), outputs[f"{size}_encode_codes"].long())
    official = outputs[f"{size}_encode_quant"].permute(0, 2, 3, 1)
    torch.testing.assert_close(codec.codebook[codec.encode(pixels)], official, atol=1e-5, rtol=0)


def test_any_grid_decodes(codec: VQCodec) -> None:
    """The network of transformers insists on one square grid; ours does not."""
    assert codec.decode(torch.zeros(1, 3, 5, dtype=torch.int64)).shape == (1, 3, 6, 10)


def test_pixels_at_the_edges_of_their_range() -> None:
    """docs/reports.md B2: clamped and rounded in one place, before anything leaves torch."""
    assert to_bytes(torch.tensor([-1.2, -1, 0, 1, 1.2])).tolist() == [0, 0, 128, 255, 255]
    assert to_bytes(torch.tensor([-1.2, -1, 0, 1, 1.2]).bfloat16()).tolist() == [0, 0, 128, 255, 255]


@pytest.mark.parametrize(("name", "sizes"), [("VQ-16", VQ_16), ("VQ-8", VQ_8)])
def test_keys_and_shapes_of_the_published_tokenizers(name: str, sizes: VQSizes) -> None:
    table = json.loads(Path(reference_file("manifest.json")).read_text())[name]["keys"]
    published = renamed({key: torch.empty(shape, device="meta") for key, shape in table.items()}, RENAMES, IGNORABLE)
    network = vq_network(sizes)
    assert {key: list(value.shape) for key, value in network.state_dict().items()} == {
        key: list(value.shape) for key, value in published.items()
    }
    assert parameter_count(network) == PARAMETERS[sizes]


def test_another_codebook_has_another_fingerprint(tmp_path: Path) -> None:
    """reports A7: equal sizes, permuted codes."""
    state = load_state(reference_file("vq_tiny.pt"))
    same, permuted = tmp_path / "same.pt", tmp_path / "permuted.pt"
    torch.save({"model": state}, same)
    torch.save({"model": state | {"quantize.embedding.weight": state["quantize.embedding.weight"].flip(0)}}, permuted)
    marks = [codebook_fingerprint(TINY, path) for path in (reference_file("vq_tiny.pt"), same, permuted)]
    assert marks[0] == marks[1] != marks[2]


def test_a_tokenizer_of_other_sizes_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"vq_tiny\.pt does not fit .*embedding\.weight: shape \(128, 8\)"):
        janus_vq(VQSizes(multipliers=(1, 1), channels=32, latent=32, codes=64), reference_file("vq_tiny.pt"))

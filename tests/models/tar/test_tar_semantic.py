"""TA-Tok's decoding half against the outputs of the official code on a tiny model."""

import dataclasses
from pathlib import Path

import pytest
import torch

from mulo_ray.errors import CheckpointError
from mulo_ray.models.checkpoint import parameter_count
from mulo_ray.models.containers import read_container
from mulo_ray.models.convert import convert_file
from mulo_ray.models.tar.config import SemanticSizes
from mulo_ray.models.tar.semantic import SemanticDecoder, check_semantic, semantic_decoder, sizes_in
from tests.support.official import reference, reference_file

TINY = SemanticSizes(codes=64, hidden=12)


def decoder_of(path: Path) -> SemanticDecoder:
    return semantic_decoder(TINY, path, "cpu", torch.float32)


@pytest.mark.parametrize("grid", ["", "_pooled"])
def test_features_are_those_of_the_official_code(grid: str) -> None:
    """Nine codes and, of a coarser grid, four; positions are resized to either."""
    outputs = reference("ta_tok_tiny")
    found = decoder_of(reference_file("ta_tok_tiny.pth"))(outputs[f"indices{grid}"].long())
    torch.testing.assert_close(found, outputs[f"features{grid}"], atol=1e-4, rtol=0)


def test_sizes_are_read_from_the_file() -> None:
    container = read_container(reference_file("ta_tok_tiny.pth"))
    found = sizes_in(container, TINY, "ta_tok")
    assert found == dataclasses.replace(TINY, code_dim=12, layers=1)
    assert (found.ffn, found.positions, found.normalised) == (3072, 256, True)
    container.arguments["bottleneck"]["args"]["regularizer"]["args"]["l2_normalized"] = False
    assert not sizes_in(container, TINY, "ta_tok").normalised


def test_a_converted_file_gives_the_same(tmp_path: Path) -> None:
    path = reference_file("ta_tok_tiny.pth")
    convert_file(path, tmp_path / "ta_tok.safetensors")
    check_semantic(tmp_path / "ta_tok.safetensors", TINY)
    codes = reference("ta_tok_tiny")["indices"].long()
    assert torch.equal(decoder_of(tmp_path / "ta_tok.safetensors")(codes), decoder_of(path)(codes))


def test_a_picture_does_not_depend_on_its_company() -> None:
    decoder, codes = decoder_of(reference_file("ta_tok_tiny.pth")), reference("ta_tok_tiny")["indices"].long()
    together = decoder(codes)
    assert all(torch.equal(decoder(codes[row : row + 1])[0], together[row]) for row in range(len(codes)))


def test_files_that_are_no_ta_tok_or_another_one_are_refused() -> None:
    """docs/reports.md A7: other numbers of codes, both named; then an image model under its name."""
    with pytest.raises(CheckpointError, match=r"knows 64 codes .* size 12; the family is set up with 128 and 12"):
        check_semantic(reference_file("ta_tok_tiny.pth"), dataclasses.replace(TINY, codes=128))
    with pytest.raises(CheckpointError, match=r"is no TA-Tok: it lacks bottleneck\.regularizer\.embedding\.weight"):
        check_semantic(reference_file("ar_dtok_lo.pth"), TINY)


def test_parameters_are_counted_by_arithmetic() -> None:
    with torch.device("meta"):
        assert parameter_count(SemanticDecoder(SemanticSizes())) == SemanticSizes().parameters
        assert parameter_count(SemanticDecoder(TINY)) == TINY.parameters

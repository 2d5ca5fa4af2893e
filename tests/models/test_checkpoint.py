"""Weights that do not fit are an error that says which keys; docs/reports.md B1."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mulo_ray.errors import CheckpointError
from mulo_ray.models.checkpoint import fill, load_tensors


def test_half_precision_files_fill_float32_modules(tmp_path):
    """reports B2."""
    save_file({"weight": torch.ones(2, 3).half(), "bias": torch.zeros(2).bfloat16()}, tmp_path / "w.safetensors")
    module = nn.Linear(3, 2)
    fill(module, load_tensors(tmp_path / "w.safetensors"), "w.safetensors")
    assert module.weight.dtype == torch.float32
    assert module.weight.sum() == 6
    assert not module.weight.requires_grad


def test_every_fault_is_named_up_to_five():
    module = nn.Sequential(*(nn.Linear(2, 2) for _ in range(4)))
    tensors = {"0.weight": torch.zeros(3, 2), "stray": torch.zeros(1)}
    with pytest.raises(CheckpointError) as error:
        fill(module, tensors, "pair.safetensors")
    text = str(error.value)
    assert "pair.safetensors" in text
    assert "missing" in text
    assert "and 4 more" in text


def test_shapes_and_strays_are_faults():
    with pytest.raises(CheckpointError, match=r"weight: shape \(3, 3\), expected \(2, 3\)"):
        fill(nn.Linear(3, 2, bias=False), {"weight": torch.zeros(3, 3)}, "x")
    with pytest.raises(CheckpointError, match="stray: not part of this model"):
        fill(nn.Linear(3, 2, bias=False), {"weight": torch.zeros(2, 3), "stray": torch.zeros(1)}, "x")


@pytest.mark.parametrize("content", [b"", b"truncated", b"\x10\0\0\0\0\0\0\0{not json at all"])
def test_torn_files_are_sentences(tmp_path, content):
    path = tmp_path / "torn.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load_tensors(path)


def test_missing_file_and_directory(tmp_path):
    for path in (tmp_path, tmp_path / "none.safetensors"):
        with pytest.raises(CheckpointError, match="no weights at"):
            load_tensors(path)

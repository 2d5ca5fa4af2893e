"""Weights in every container that official code writes; docs/reports.md B1."""

import argparse
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from mulo_ray.errors import CheckpointError
from mulo_ray.models.checkpoint import fill
from mulo_ray.models.containers import load_state, read_container
from mulo_ray.models.convert import convert, main
from tests.support.official import reference_file

STATE = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.ones(2)}
ARGS = {"name": "x", "args": {"dim": 3}}


class Foreign:
    """A class that no allow-list holds; unpickling it would run this module."""


CONTAINERS: dict[str, Callable[[Path], Any]] = {
    "bare": lambda path: torch.save(STATE, path),
    "model": lambda path: torch.save({"model": STATE, "steps": 7, "optimizer": {"state": {}}}, path),
    "module": lambda path: torch.save({"module": STATE, "global_steps": 7}, path),
    "state_dict": lambda path: torch.save({"state_dict": STATE}, path),
    "namespace": lambda path: torch.save({"model": STATE, "args": argparse.Namespace(gpt_model="GPT-B")}, path),
    "nested": lambda path: torch.save({"model": {**ARGS, "sd": STATE}}, path),
    "legacy": lambda path: torch.save({"model": STATE}, path, _use_new_zipfile_serialization=False),
    "safetensors": lambda path: save_file(STATE, path),
    "distributed": lambda path: torch.save({"model": {f"module.{k}": v for k, v in STATE.items()}}, path),
    "compiled": lambda path: torch.save({f"_orig_mod.module.{k}": v for k, v in STATE.items()}, path),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_every_container_gives_the_same_tensors(tmp_path: Path, kind: str) -> None:
    """reports B1. Also without a suffix that would tell: what a file is stands in its first bytes."""
    path = tmp_path / "weights"
    CONTAINERS[kind](path)
    state = load_state(path)
    assert state.keys() == STATE.keys()
    assert all(torch.equal(state[name], value) for name, value in STATE.items())


def test_what_lay_beside_the_tensors_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    CONTAINERS["namespace"](path)
    found = read_container(path)
    assert (found.held_under, found.arguments) == ("model", {"gpt_model": "GPT-B"})
    CONTAINERS["nested"](path)
    found = read_container(path)
    assert (found.held_under, found.arguments) == ("model.sd", {"dim": 3})


def test_a_foreign_class_is_refused_by_its_name_and_never_built(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save({"model": STATE, "args": Foreign()}, path)
    with pytest.raises(CheckpointError, match=r"objects of .*test_containers\.Foreign beside") as error:
        load_state(path)
    assert "mulo_ray.models.convert" in str(error.value)


def test_a_pickle_that_would_run_code_does_not(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"model": STATE, "x": Bomb()}, tmp_path / "zip.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Bomb(), protocol=2))
    for name in ("zip.pt", "plain.pt"):
        with pytest.raises(CheckpointError):
            load_state(tmp_path / name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "holds no weights at all"),
        ({"model": {}}, "holds no weights at all"),
        ({"weights": {"a": 1}, "steps": 3}, "its keys are weights, steps"),
        ([1, 2], "holds a list"),
        ({"model": {"weight": torch.ones(1), "step": 3}}, r"more than tensors among its weights: step \(int\)"),
    ],
)
def test_files_without_weights_say_what_they_hold(tmp_path: Path, content: Any, sentence: str) -> None:
    """reports B1: an empty dict among others."""
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=sentence):
        load_state(tmp_path / "w.pt")


def test_torn_files_and_directories_are_sentences(tmp_path: Path) -> None:
    """reports B1."""
    CONTAINERS["model"](tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    (tmp_path / "torn.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.pt").write_bytes(b"")
    for name in ("torn.pt", "empty.pt"):
        with pytest.raises(CheckpointError, match=r"neither a readable|cannot be read"):
            load_state(tmp_path / name)
    with pytest.raises(CheckpointError, match="is a directory"):
        load_state(tmp_path)
    with pytest.raises(CheckpointError, match="no weights at"):
        load_state(tmp_path / "none.pt")


def test_a_prefix_that_only_some_names_carry_stays(tmp_path: Path) -> None:
    state = {"module.weight": torch.ones(1), "weight": torch.ones(1)}
    torch.save(state, tmp_path / "w.pt")
    assert load_state(tmp_path / "w.pt").keys() == state.keys()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_fills_a_module_that_had_no_memory(tmp_path: Path, dtype: torch.dtype) -> None:
    """reports B2: float32 on a CPU, from the meta device as from memory; stray keys by pattern, renames in turn."""
    half: dict[str, Tensor] = {f"old.{name}": value.to(dtype) for name, value in STATE.items()}
    torch.save({"model": half | {"freqs_cis": torch.ones(1)}}, tmp_path / "w.pt")
    with torch.device("meta"):
        module = nn.Linear(3, 2)
    fill(module, load_state(tmp_path / "w.pt"), "w.pt", renames=[(r"^old\.", "")], ignorable=[r"freqs_cis"])
    assert module.weight.dtype == torch.float32
    assert torch.equal(module.weight, STATE["weight"])
    assert not module.weight.requires_grad


def test_two_names_that_become_one_are_refused() -> None:
    tensors = {"a.weight": torch.ones(2, 3), "b.weight": torch.ones(2, 3)}
    with pytest.raises(CheckpointError, match="would both be named weight"):
        fill(nn.Linear(3, 2, bias=False), tensors, "w.pt", renames=[(r"^[ab]\.", "")])


def test_conversion_keeps_tensors_names_and_arguments(tmp_path: Path) -> None:
    source = tmp_path / "official"
    source.mkdir()
    CONTAINERS["nested"](source / "a.pth")
    CONTAINERS["namespace"](source / "b.pt")
    (source / "family.json").write_text("{}")
    assert [path.name for path in convert(source, tmp_path / "new")] == ["a.safetensors", "b.safetensors"]
    assert (tmp_path / "new" / "family.json").is_file()
    for name in ("a.pth", "b.pt"):
        converted = (tmp_path / "new" / name).with_suffix(".safetensors")
        before, after = read_container(source / name), read_container(converted)
        assert (before.held_under, before.arguments) == (after.held_under, after.arguments)
        assert all(torch.equal(before.tensors[key], after.tensors[key]) for key in before.tensors)


def test_the_conversion_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CONTAINERS["model"](tmp_path / "a.pt")
    assert main([str(tmp_path / "a.pt"), str(tmp_path / "a.safetensors"), "--dtype", "bfloat16"]) == 0
    assert load_state(tmp_path / "a.safetensors")["weight"].dtype == torch.bfloat16
    assert main([str(tmp_path / "a.pt"), str(tmp_path / "b.bin")]) == 2
    assert main([str(tmp_path / "none.pt"), str(tmp_path / "b.safetensors")]) == 1
    assert "no weights at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("gpt_c2i_lo.pt", {"gpt_model": "tiny", "image_size": 64}), ("gpt_t2i_lo.pt", {})],
)
def test_official_training_containers_open(name: str, arguments: dict[str, Any]) -> None:
    found = read_container(reference_file(name))
    assert (found.held_under, found.arguments) == ("model", arguments)

"""Weights files in any container that the official code writes, opened as tensors only. Knows no model.

A container is a safetensors file, or a torch file with the tensors bare or under `model`, `module` or `state_dict`,
perhaps one level deeper under `sd` beside the constructor's arguments (Tar).
"""

import argparse
import json
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mulo_ray.errors import CheckpointError

_HOLDERS = ("model", "module", "state_dict")  # in the order in which the official samplers look
ARGUMENTS, HELD_UNDER = "mulo_ray.arguments", "mulo_ray.held_under"
"""Header entries of converted files: JSON of what lay beside the tensors, and where they lay."""
_WRAPPERS = ("module.", "_orig_mod.")  # DistributedDataParallel and torch.compile


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What a weights file held: tensors by name, where they lay, and what was written down beside them."""

    tensors: dict[str, Tensor]
    held_under: str = ""  # "model", "model.sd"; empty when the tensors are the file
    arguments: dict[str, Any] = field(default_factory=dict)  # constructor or training arguments


def load_state(path: Path) -> dict[str, Tensor]:
    """Tensors of a file in any official container, on the CPU. Raises CheckpointError (see `read_container`)."""
    return read_container(path).tensors


def read_container(path: Path) -> Container:
    """Open a weights file; tensors are mapped from disk where the format allows.

    Raises CheckpointError when the file is missing, torn, of another kind, holds no weights, or holds objects of a
    class that is not allow-listed (argparse.Namespace is): the class is named and nothing of it is run.
    """
    if path.is_dir():
        raise CheckpointError(f"{path} is a directory; give the weights file in it")
    if not path.is_file():
        raise CheckpointError(f"no weights at {path}; expected a safetensors or torch file")
    if zipfile.is_zipfile(path) or _is_pickle(path):
        found = _unwrap_holders(_read_torch(path), path)
    else:
        found = _read_safetensors(path)
    strays = [f"{name} ({type(value).__name__})" for name, value in found.tensors.items() if not _is_tensor(value)]
    if strays:
        raise CheckpointError(f"{path} holds more than tensors among its weights: {', '.join(strays[:5])}")
    if not found.tensors:
        raise CheckpointError(f"{path} holds no weights at all; copy or convert it again")
    return Container(tensors=_without_wrappers(found.tensors), held_under=found.held_under, arguments=found.arguments)


def _read_safetensors(path: Path) -> Container:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            header = file.metadata() or {}
            return Container(
                tensors=tensors,
                held_under=header.get(HELD_UNDER, ""),
                arguments=json.loads(header.get(ARGUMENTS, "{}")),
            )
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} is neither a readable safetensors file nor a torch file ({error}); copy it again"
        ) from error


def _read_torch(path: Path) -> Any:
    with torch.serialization.safe_globals([argparse.Namespace]):
        try:
            # Files of before torch 1.6 are no zip archives and cannot be mapped.
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except pickle.UnpicklingError as error:
            foreign = _foreign_classes(path)
            if foreign:
                raise CheckpointError(
                    f"{path} holds objects of {foreign} beside its tensors; only tensors, plain values and "
                    "argparse.Namespace are loaded, as unpickling another class runs its code. Where you trust the "
                    "file, open it in the program that wrote it, torch.save its state dict alone, and turn that into "
                    "safetensors with python -m mulo_ray.models.convert"
                ) from error
            raise CheckpointError(f"{path} cannot be read as a torch file ({_brief(error)}); copy it again") from error
        except (RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError) as error:
            raise CheckpointError(f"{path} cannot be read as a torch file ({_brief(error)}); copy it again") from error


def _foreign_classes(path: Path) -> str:
    """Names of the classes that were refused, found without running anything; empty when that is not the fault."""
    try:
        return ", ".join(torch.serialization.get_unsafe_globals_in_checkpoint(str(path))[:5])
    except (ValueError, RuntimeError, pickle.UnpicklingError):
        return ""


def _unwrap_holders(content: Any, path: Path) -> Container:
    if not isinstance(content, Mapping):
        raise CheckpointError(f"{path} holds a {type(content).__name__}, not weights by name; give the model's file")
    holder = next((key for key in _HOLDERS if isinstance(content.get(key), Mapping)), "")
    arguments = _as_arguments(content.get("args")) if holder else {}
    inner: Mapping[str, Any] = content[holder] if holder else content
    if isinstance(inner.get("sd"), Mapping):
        held = f"{holder}.sd".lstrip(".")
        return Container(tensors=dict(inner["sd"]), held_under=held, arguments=_as_arguments(inner.get("args")))
    if not holder and inner and not any(_is_tensor(value) for value in inner.values()):
        keys = ", ".join(str(key) for key in list(inner)[:5])
        raise CheckpointError(
            f"{path} holds no weights: its keys are {keys}; expected names of tensors, or one of {', '.join(_HOLDERS)}"
        )
    return Container(tensors=dict(inner), held_under=holder, arguments=arguments)


def _as_arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, argparse.Namespace):
        return vars(value)
    return dict(value) if isinstance(value, Mapping) else {}


def _without_wrappers(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Strip what a training wrapper put before every name; a prefix that only some carry belongs to the model."""
    for prefix in (*_WRAPPERS, *_WRAPPERS):  # a compiled module inside a distributed one, or the other way round
        if all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _is_pickle(path: Path) -> bool:
    """The first bytes of a pickle of protocol 2 to 5. A safetensors file starts with the length of its header."""
    with path.open("rb") as file:
        start = file.read(2)
    return len(start) == 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def _brief(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200] or type(error).__name__

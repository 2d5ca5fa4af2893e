"""Weights from disk into modules: tensors only, every key and shape accounted for. Knows no family."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mulo_ray.errors import CheckpointError


def load_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file; CheckpointError when it is missing, torn or of another format."""
    if not path.is_file():
        raise CheckpointError(
            f"no weights at {path}; expected a safetensors file (see the family's card for its names)"
        )
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file ({error}); copy it again") from error


def fill(module: nn.Module, tensors: dict[str, Tensor], source: str, dtype: torch.dtype = torch.float32) -> None:
    """Copy tensors into `module`, cast to `dtype`; a key missing, extra or misshaped is an error that lists five."""
    wanted = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    got = {name: tuple(value.shape) for name, value in tensors.items()}
    faults = [f"{name}: missing" for name in wanted if name not in got]
    faults += [f"{name}: not part of this model" for name in got if name not in wanted]
    faults += [f"{n}: shape {got[n]}, expected {wanted[n]}" for n in wanted if n in got and got[n] != wanted[n]]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise CheckpointError(f"{source} does not fit the model it was named for: {'; '.join(faults[:5])}{more}")
    module.load_state_dict({name: value.to(dtype) for name, value in tensors.items()})
    module.requires_grad_(False).eval()

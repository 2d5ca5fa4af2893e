"""Tensors into modules: every key and shape accounted for, or seeded random ones. Knows no family and no container."""

import math
import re
import zlib
from collections.abc import Sequence
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


def renamed(
    tensors: dict[str, Tensor], renames: Sequence[tuple[str, str]] = (), ignorable: Sequence[str] = ()
) -> dict[str, Tensor]:
    """Tensors under this package's names: those that match an `ignorable` pattern whole are left out, then every rename
    (pattern, replacement) is applied in turn. Patterns are regular expressions and see the file's own names first.
    """
    kept = {}
    for name, value in tensors.items():
        if any(re.fullmatch(pattern, name) for pattern in ignorable):
            continue
        new = name
        for pattern, replacement in renames:
            new = re.sub(pattern, replacement, new)
        if new in kept:
            raise CheckpointError(
                f"two tensors of the file would both be named {new}, the second is {name}; convert it again"
            )
        kept[new] = value
    return kept


def check_fit(module: nn.Module, tensors: dict[str, Tensor], source: str) -> None:
    """Raise CheckpointError listing up to five keys that are missing, extra or misshaped. Reads no value."""
    wanted = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    got = {name: tuple(value.shape) for name, value in tensors.items()}
    faults = [f"{name}: missing" for name in wanted if name not in got]
    faults += [f"{name}: not part of this model" for name in got if name not in wanted]
    faults += [f"{n}: shape {got[n]}, expected {wanted[n]}" for n in wanted if n in got and got[n] != wanted[n]]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise CheckpointError(f"{source} does not fit the model it was named for: {'; '.join(faults[:5])}{more}")


def fill(
    module: nn.Module,
    tensors: dict[str, Tensor],
    source: str,
    dtype: torch.dtype = torch.float32,
    renames: Sequence[tuple[str, str]] = (),
    ignorable: Sequence[str] = (),
) -> None:
    """Give `module` the tensors, floating ones cast to `dtype`, and freeze it; `renamed` says what patterns do.

    The module may lie on the meta device: its weights are then made here for the first time. What is no weight, such
    as a rotary table, keeps its own dtype. Raises CheckpointError as `check_fit` does.
    """
    tensors = renamed(tensors, renames, ignorable)
    check_fit(module, tensors, source)
    module.load_state_dict({name: _owned(value, dtype) for name, value in tensors.items()}, assign=True)
    assert not any(value.is_meta for value in (*module.parameters(), *module.buffers())), "a table was left on meta"
    module.requires_grad_(False).eval()


def fill_random(module: nn.Module, seed: str, dtype: torch.dtype = torch.float32) -> None:
    """Seeded weights in place of a file: the same on every device and in every process. For timing, not for pictures.

    A matrix has deviation 1 / sqrt(inputs), so that values keep their size from layer to layer.
    """
    made = {name: _random(f"{seed}/{name}", value).to(dtype) for name, value in module.state_dict().items()}
    module.load_state_dict(made, assign=True)
    module.requires_grad_(False).eval()


def parameter_count(module: nn.Module) -> int:
    """Numbers in a module's weights and persistent buffers; works on the meta device."""
    return sum(value.numel() for value in module.state_dict().values())


def _random(seed: str, like: Tensor) -> Tensor:
    if like.ndim < 2:
        return torch.zeros(like.shape) if seed.endswith("bias") else torch.ones(like.shape)
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return torch.randn(like.shape, generator=generator).div_(math.sqrt(like[0].numel()))


def _owned(value: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy in memory: a file that is mapped could change or vanish under a run."""
    return value.to(dtype if value.is_floating_point() else value.dtype, copy=True).contiguous()

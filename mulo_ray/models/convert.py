"""Official weights files as safetensors: the same tensors and names, with the configuration found beside them.

    python -m mulo_ray.models.convert t2i_XL_stage2_512.pt t2i_XL_stage2_512.safetensors --dtype bfloat16
    python -m mulo_ray.models.convert FOLDER OTHER_FOLDER        every .pt and .pth of a folder

A family finds a converted file under the published name with the suffix .safetensors. Knows no family.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from mulo_ray.errors import MuloError, UsageError
from mulo_ray.models.containers import ARGUMENTS, HELD_UNDER, read_container
from mulo_ray.types import ExitCode

_DTYPES = {"keep": None, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SUFFIXES = (".pt", ".pth")


def convert_file(source: Path, target: Path, dtype: torch.dtype | None = None) -> None:
    """Write the tensors of a container to a safetensors file, floating ones cast to `dtype` when given.

    Constructor or training arguments travel as JSON in its header. Raises CheckpointError for a source that cannot be
    read, UsageError for a target that is no .safetensors.
    """
    if target.suffix != ".safetensors":
        raise UsageError(f"the output must end in .safetensors, got {str(target)!r}")
    container = read_container(source)
    tensors = {
        name: value.to(dtype if dtype and value.is_floating_point() else value.dtype, copy=True).contiguous()
        for name, value in container.tensors.items()
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    header = {HELD_UNDER: container.held_under, ARGUMENTS: json.dumps(container.arguments, default=str)}
    save_file(tensors, part, metadata=header)
    os.replace(part, target)


def convert(source: Path, target: Path, dtype: torch.dtype | None = None) -> list[Path]:
    """Convert a file, or every .pt and .pth of a folder, whose family.json is copied; the files written."""
    if not source.is_dir():
        convert_file(source, target, dtype)
        return [target]
    found = sorted(path for path in source.iterdir() if path.suffix in _SUFFIXES)
    if not found:
        raise UsageError(f"{source} holds no .pt and no .pth file")
    written = [target / f"{path.stem}.safetensors" for path in found]
    for path, output in zip(found, written, strict=True):
        convert_file(path, output, dtype)
    if (source / "family.json").is_file():
        shutil.copyfile(source / "family.json", target / "family.json")
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mulo_ray.models.convert", description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path, help="an official weights file, or a folder of them")
    parser.add_argument("target", type=Path, help="a .safetensors file, or a folder")
    parser.add_argument("--dtype", choices=tuple(_DTYPES), default="keep")
    options = parser.parse_args(arguments)
    try:
        for path in convert(options.source, options.target, _DTYPES[options.dtype]):
            print(f"{path}: {path.stat().st_size / 1e9:.2f} GB")
    except MuloError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.RUN_FAILED)
    return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main())

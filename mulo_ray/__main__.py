"""`python -m mulo_ray "a red apple" -o apple.png`: one picture in this process. Knows no Ray."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from mulo_ray import cli
from mulo_ray.config import DecoderOptions, JobConfig, ModelOptions, RunOptions, SamplingOptions
from mulo_ray.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleOptions:
    """One prompt, one file, and the options of a job that change pixels."""

    text: Annotated[str, tyro.conf.Positional] = ""
    """What to draw."""
    out: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "image.png"
    """The PNG file to write."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto takes a GPU when torch sees one."""
    model: ModelOptions = field(default_factory=ModelOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    decoding: DecoderOptions = field(default_factory=DecoderOptions)


def draw(options: SingleOptions) -> None:
    """Write the picture. Raises UsageError for a missing prompt or a file that cannot be written."""
    from mulo_ray.single import generate_one

    if not options.text.strip():
        raise UsageError("a prompt is needed: python -m mulo_ray 'a red apple' -o apple.png")
    config = JobConfig(
        model=options.model,
        sampling=options.sampling,
        decoding=options.decoding,
        run=RunOptions(device=options.device),
    )
    png = generate_one(options.text, config)
    path = Path(options.out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png)
    except OSError as error:
        raise UsageError(f"--out {options.out!r} cannot be written: {error}") from error
    print(path)


if __name__ == "__main__":
    asked = cli.parse(SingleOptions, "One picture from one prompt, without Ray.", SingleOptions())
    sys.exit(cli.main(lambda: draw(asked)))

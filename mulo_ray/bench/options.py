"""The options of a comparison, and what may not change when it goes on. Knows no model and no file."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mulo_ray.config import JobConfig, ModelOptions, RunOptions, SamplingOptions
from mulo_ray.errors import UsageError

_MODEL, _SAMPLING = ModelOptions(), SamplingOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Which methods are compared, in which settings and batches, and how closely their pictures are looked at."""

    decoders: str = "ar,zipar,exact,speculative,eagle2,lantern,mulo"
    """Decoders, with commas between; each in the family's default setting. `ar` is always among them."""
    settings: str = ""
    """More settings, with commas between: "mulo tau=0.001 s=4,zipar s=2"."""
    sweep: bool = False
    """Add the sweep of each decoder."""
    batch: str = "1,4,16"
    """Batch sizes, with commas between."""
    limit: int = 32
    """Captions that are timed."""
    captions_file: str | None = None
    """Captions to time; none: the package's own 64."""
    quality_n: int = 128
    """Evaluation captions whose pictures are judged, per setting; 0 leaves quality out."""
    headlines: str = ""
    """Settings judged on --headline-n captions instead, with commas between, 8 at most: "ar,zipar s=4,mulo"."""
    headline_n: int = 1000
    """Captions of a headline setting."""
    output: str = "out/compare"
    """Local directory or URI: cells, compare.json, compare.html. The same command goes on."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where both networks run."""
    model: ModelOptions = _MODEL
    sampling: SamplingOptions = _SAMPLING

    def __post_init__(self) -> None:
        for option, value, least in (
            ("limit", self.limit, 1),
            ("quality-n", self.quality_n, 0),
            ("headline-n", self.headline_n, 1),
        ):
            if value < least:
                raise UsageError(f"--{option} must be {least} or more, got {value}")
        if max(self.batches) > self.limit:
            raise UsageError(
                f"--batch {max(self.batches)} needs as many captions to time, got --limit {self.limit}: raise the "
                "limit or leave that batch out"
            )

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes, each once, smallest first."""
        sizes = split(self.batch)
        if not sizes or not all(size.isdigit() and int(size) for size in sizes):
            raise UsageError(f"--batch takes whole numbers of 1 or more with commas between, got {self.batch!r}")
        return tuple(sorted({int(size) for size in sizes}))

    def base(self) -> JobConfig:
        """What all settings share."""
        return JobConfig(model=self.model, sampling=self.sampling, run=RunOptions(device=self.device))

    def fixed(self, resolved: JobConfig, weights: str, torch_version: str) -> dict[str, Any]:
        """What all cells of one output have in common; a command that differs in it starts another output."""
        sampling = dataclasses.asdict(resolved.sampling)
        return {
            "family": resolved.model.family,
            "weights": weights,
            "target_px": resolved.model.target_px,
            **sampling,
            "captions_file": self.captions_file,
            "limit": self.limit,
            "device": self.device,
            "torch": torch_version,
        }


def split(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def same_or_refuse(kept: dict[str, Any], wanted: dict[str, Any], output: str) -> None:
    """UsageError naming every field in which the cells of an output differ from those that a command would add."""
    changed: Sequence[str] = [name for name in wanted if kept.get(name) != wanted[name]]
    if changed:
        said = "; ".join(f"{name}: {kept.get(name)!r} there, {wanted[name]!r} now" for name in changed)
        raise UsageError(
            f"{output} holds a comparison made with other settings ({said}), and ratios between the two would say "
            "nothing: give another --output, or the same settings"
        )

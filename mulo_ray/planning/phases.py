"""Phase times of one micro-batch: given by hand, or read from a run's report.json. Knows no file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mulo_ray.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Busy seconds per micro-batch of `batch_size` images; `put_s` per image. No drafter: `drafter_s` is None."""

    target_s: float
    drafter_s: float | None = None
    render_s: float = 0.0  # on the target's device
    put_s: float = 0.0
    batch_size: int = 8
    cycles: int = 1  # hand-overs of drafts to the target, per micro-batch

    def __post_init__(self) -> None:
        for name, value, least in (
            ("--target-s", self.target_s, "above 0"),
            ("--drafter-s", 1.0 if self.drafter_s is None else self.drafter_s, "above 0"),
            ("--batch-size", self.batch_size, "1 or more"),
            ("--cycles", self.cycles, "1 or more"),
        ):
            if value <= 0:
                raise UsageError(f"{name} must be {least}, got {value}")
        for name, value in (("--render-s", self.render_s), ("--put-s", self.put_s)):
            if value < 0:
                raise UsageError(f"{name} must be 0 or more seconds, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run that was measured: what its micro-batches took, in which shape it ran, and how fast it was."""

    phases: Phases
    group: str
    groups: int
    in_flight: int
    images_per_s: float | None
    images: int  # that the whole job has


def read_report(report: Mapping[str, Any]) -> Measured:
    """What `report.json` says. UsageError where it holds no phase times."""
    told: Mapping[str, Any] = report.get("phases") or {}
    if told.get("target_s") is None:
        raise UsageError(
            "this report holds no phase times: its run made nothing, or an older version wrote it; take the report of "
            "a run that made images, or give --drafter-s and --target-s"
        )
    cycles = (report.get("summary") or {}).get("per_image", {}).get("cycles", {}).get("mean", 0.0)
    try:
        return Measured(
            phases=Phases(
                drafter_s=told.get("drafter_s"),
                target_s=told["target_s"],
                render_s=told.get("render_s") or 0.0,
                put_s=told.get("put_s") or 0.0,
                batch_size=told["batch_size"],
                cycles=max(1, round(cycles)),
            ),
            group=told["group"],
            groups=told["groups"],
            in_flight=told["in_flight"],
            images_per_s=told.get("images_per_s"),
            images=report.get("total", 0),
        )
    except (KeyError, TypeError) as error:
        raise UsageError(
            f"the phase times of this report are not whole ({error!r}): take that of another run"
        ) from error

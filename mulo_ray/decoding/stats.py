"""What one image cost: forwards, query positions, verdicts, seconds per phase. Counts are return values, never logs."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(slots=True, kw_only=True)
class ImageStats:
    """Costs of one image. Forwards include the prefill; seconds are the micro-batch's, divided by its size."""

    forwards_target: int = 0
    forwards_drafter: int = 0
    query_positions: int = 0  # target and drafter positions fed, per guidance half, prefill left out
    cycles: int = 0
    accepted: int = 0
    rejected: int = 0
    resampled: int = 0
    islands: int = 0
    depth: int = 0  # serial forwards of resampling
    seconds: dict[str, float] = field(default_factory=dict)  # phase -> seconds

    def add(self, other: "ImageStats") -> None:
        """Add another part of the same image's costs."""
        for f in fields(self):
            if f.name != "seconds":
                setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))
        for phase, seconds in other.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a ledger row."""
        return asdict(self)

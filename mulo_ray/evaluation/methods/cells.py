"""What a comparison of methods found, as plain data: compare.json's rows and what the page shows beside them."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A setting at a batch size: exactly what compare.json says of it.

    Counts are means per image, None where the method has no such thing. `speedup_vs_ar` is over the fastest `ar` at
    that batch: the median over rounds in which both ran in turn. Quality is that of the setting, whatever the batch,
    over `n` pictures; `fd` is None for few.
    """

    decoder: str
    setting: str
    drafter_px: int | None
    target_px: int
    batch: int
    seconds_per_image: float
    images_per_s: float
    speedup_vs_ar: float
    forwards_target: float
    forwards_drafter: float
    query_positions: float
    accepted: float | None
    resampled: float | None
    depth: float | None
    nll: float | None
    fd: float | None
    judge_top5: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """An estimate with one-sided 95 % bounds."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A setting beside its rows: what its pictures are against plain decoding's, where drafts fall, where time goes.

    `fd_ratio`, `top5_difference` and `same_tokens` compare the same captions by both. `rejected_HW` is the share of
    images whose draft was refused at each cell; `phases` seconds per image by batch size and phase.
    """

    decoder: str
    setting: str
    drafter_px: int | None
    headline: bool = False
    fd_ratio: Bound | None = None
    top5_difference: Bound | None = None
    same_tokens: float | None = None
    compared: int = 0
    rejected_HW: np.ndarray | None = None
    phases: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    sheet: Sequence[bytes] = ()

    @property
    def name(self) -> str:
        """Decoder, drafter where there is one, and setting."""
        start = self.decoder if self.drafter_px is None else f"{self.decoder} {self.drafter_px} px"
        return f"{start}, {self.setting}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodsCompared:
    """A whole comparison. `skipped` are (setting, sentence); `fixed` is what all rows have in common; `rounds` how many
    pairs are behind a speed-up, by batch."""

    command: str
    fixed: Mapping[str, Any]
    rows: Sequence[Row]
    methods: Sequence[Method]
    skipped: Sequence[tuple[str, str]] = ()
    rounds: Mapping[int, int] = field(default_factory=dict)
    captions: Sequence[str] = ()
    quality_note: str = ""


def rows_json(rows: Sequence[Row]) -> bytes:
    """compare.json."""
    return (json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n").encode()

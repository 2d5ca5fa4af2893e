"""The shared nouns: prompt, ledger row, report, exit code. Knows no torch, no Ray, no file."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

Status = Literal["ok", "failed"]


class ExitCode(IntEnum):
    """What a job process returns to its caller."""

    DONE = 0
    RUN_FAILED = 1
    USAGE = 2
    TOO_MANY_FAILED = 3
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One caption with its identity.

    `key` names it for ever (ledger, object name, seed) and is never derived from the text. A prompt that
    cannot be used carries its reason in `error` and travels to the ledger as a failed row.
    """

    key: str
    text: str
    source: str = ""  # where it was read: "file.jsonl line 12"
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """The lasting outcome of one (prompt, sample): exactly one effective row per pair."""

    key: str
    sample: int
    status: Status
    uri: str = ""
    bytes: int = 0
    sha256: str = ""
    prompt: str = ""
    prompt_used: str = ""
    attempts: int = 1
    error: str = ""
    transient: bool = False  # a failure that the next run tries again
    stats: str = ""  # JSON of decoding.stats for this image


@dataclass(slots=True, kw_only=True)
class Report:
    """What one call of `mulo_ray.job.run` did; `report.json` is this, plus the resolved config."""

    total: int = 0
    done_before: int = 0
    made: int = 0
    failed: int = 0
    retried: int = 0
    max_failed: int = 0
    seconds: float = 0.0
    images_per_s: float = 0.0
    decoding: dict[str, Any] = field(default_factory=dict)  # means per image and seconds per phase
    phases: dict[str, Any] = field(default_factory=dict)  # docs/operations.md, "Phase times"
    timeline: dict[str, Any] = field(default_factory=dict)  # what each device did
    failures: list[dict[str, Any]] = field(default_factory=list)  # the first hundred
    output: str = ""
    report_html: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """DONE, or TOO_MANY_FAILED when more rows failed than `max_failed` allows."""
        return ExitCode.TOO_MANY_FAILED if self.failed > self.max_failed else ExitCode.DONE

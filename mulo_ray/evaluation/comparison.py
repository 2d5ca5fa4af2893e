"""Finished runs side by side: time, forwards, query positions, and the same captions drawn by each.

Refuses runs that differ in more than the decoder: a ratio between them would say nothing (docs/reports.md A4).
Knows the files of finished runs only.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mulo_ray.errors import StorageError, UsageError
from mulo_ray.evaluation.finished import RunStore, object_name, setting
from mulo_ray.evaluation.pages import render, short, snippet
from mulo_ray.evaluation.pictures import contact_sheet, thumbnail_uri
from mulo_ray.evaluation.report import REPORT_JSON, decoder_line
from mulo_ray.types import LedgerRow

COMPARISON_JSON, COMPARISON_HTML = "comparison.json", "comparison.html"
MAX_CAPTIONS = 24
# What two runs must share to be compared; they may differ in the decoder and in where they ran.
SHARED = (
    *("family", "weights", "target_px", "guidance", "temperature", "top_k", "top_p", "seed"),
    *("captions_file", "captions", "limit", "samples_per_prompt"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """One output with its report; `rows` are its effective ledger rows by (key, sample)."""

    label: str
    store: RunStore
    rows: Mapping[tuple[str, int], LedgerRow]
    report: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved config."""
        config: Mapping[str, Any] = self.report["config"]
        return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One run's line of the table; None where a run does not say."""

    label: str
    exact: bool
    images: int
    seconds_per_image: float | None  # wall-clock; None when some images are from an earlier session
    speed_up: float | None  # over the first run
    device_seconds: (
        float | None
    )  # per image, busy time of both roles: what remains when start-up and storage are taken out
    forwards_target: float | None
    forwards_drafter: float | None
    query_positions: float | None
    accepted: float | None
    decoder: str


def read_run(store: RunStore, rows: Mapping[tuple[str, int], LedgerRow], label: str = "") -> FinishedRun:
    """A finished run from its output. Raises UsageError where no report.json can be read."""
    try:
        report = json.loads(store.get(REPORT_JSON))
    except (StorageError, OSError, ValueError) as error:
        raise UsageError(f"{store.uri_of(REPORT_JSON)} is not the report of a finished run: {error}") from error
    return FinishedRun(label=label or str(setting(report["config"], "decoder")), store=store, rows=rows, report=report)


def differences(runs: Sequence[FinishedRun]) -> dict[str, list[Any]]:
    """The shared settings that are not equal in all runs, with each run's value."""
    values = {name: [setting(run.config, name) for run in runs] for name in SHARED}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def compare(runs: Sequence[FinishedRun]) -> list[Line]:
    """One line per run. Raises UsageError for fewer than two runs, or for runs that may not be compared."""
    if len(runs) < 2:
        raise UsageError(f"a comparison needs two finished runs or more, got {len(runs)}")
    if differing := differences(runs):
        said = "; ".join(f"{name}: {' against '.join(map(repr, found))}" for name, found in differing.items())
        raise UsageError(f"these runs differ in more than the decoder ({said}); run both with the same settings")
    seconds = [_seconds_per_image(run) for run in runs]
    return [_line(run, own, seconds[0]) for run, own in zip(runs, seconds, strict=True)]


def write_comparison(store: RunStore, runs: Sequence[FinishedRun]) -> list[Line]:
    """Write comparison.json and comparison.html, with the captions that every run finished side by side."""
    lines = compare(runs)
    store.put(COMPARISON_JSON, (json.dumps([dataclasses.asdict(line) for line in lines], indent=1) + "\n").encode())
    captions = [
        {
            "text": snippet(runs[0].rows[key].prompt),
            "label": key[0],
            "images": [thumbnail_uri(_image(run, key)) for run in runs],
        }
        for key in shared_keys(runs)[:MAX_CAPTIONS]
    ]
    page = render("comparison.html.j2", lines=lines, labels=[run.label for run in runs], captions=captions)
    store.put(COMPARISON_HTML, page.encode("utf-8", "replace"))
    return lines


def comparison_text(lines: Sequence[Line]) -> str:
    """The table of a comparison for a terminal."""
    head = (
        "run",
        "images",
        "s/image",
        "speed-up",
        "device s",
        "target fwd",
        "drafter fwd",
        "queries",
        "accepted",
        "exact",
    )
    table: list[tuple[str, ...]] = [head]
    for line in lines:
        counts = (
            *(line.seconds_per_image, line.speed_up, line.device_seconds),
            *(line.forwards_target, line.forwards_drafter),
        )
        share = "-" if line.accepted is None else f"{line.accepted:.1%}"
        numbers = (*map(short, counts), short(line.query_positions), share, "yes" if line.exact else "no")
        table.append((line.label, str(line.images), *numbers))
    return "\n".join("  ".join(f"{cell:>11}" for cell in row) for row in table)


def run_sheet(run: FinishedRun, limit: int = MAX_CAPTIONS, columns: int = 8) -> bytes:
    """A captioned PNG contact sheet of the first `limit` images of a run, by key."""
    keys = [key for key in sorted(run.rows) if run.rows[key].status == "ok"][:limit]
    return contact_sheet([(snippet(run.rows[key].prompt), _image(run, key)) for key in keys], columns)


def shared_keys(runs: Sequence[FinishedRun]) -> list[tuple[str, int]]:
    """The (key, sample) pairs that every run has finished, sorted."""
    ok = [{key for key, row in run.rows.items() if row.status == "ok"} for run in runs]
    return sorted(set.intersection(*ok))


def _image(run: FinishedRun, key: tuple[str, int]) -> bytes:
    return run.store.get(object_name(run.store, run.rows[key]))


def _seconds_per_image(run: FinishedRun) -> float | None:
    made = run.report["made"]
    return run.report["seconds"] / made if made and made == run.report["summary"]["images"] else None


def _line(run: FinishedRun, seconds: float | None, first: float | None) -> Line:
    summary = run.report["summary"]

    def mean(name: str) -> float | None:
        spread = summary["per_image"].get(name)
        return None if spread is None else spread["mean"]

    busy = [summary["seconds"][name] for name in ("target_busy", "drafter_busy") if name in summary["seconds"]]
    return Line(
        label=run.label,
        exact=run.report["exact"],
        images=summary["images"],
        seconds_per_image=seconds,
        speed_up=first / seconds if first and seconds else None,
        device_seconds=sum(busy) if busy else None,
        forwards_target=mean("forwards_target"),
        forwards_drafter=mean("forwards_drafter"),
        query_positions=mean("query_positions"),
        accepted=summary["shares"].get("accepted"),
        decoder=decoder_line(run.config),
    )

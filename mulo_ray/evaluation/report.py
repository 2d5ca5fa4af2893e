"""`report.json` and the self-contained `report.html` of one run, from its ledger rows and its resolved config.

Images are read back through the store and inlined as thumbnails. Knows no Ray, no model and no storage backend.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mulo_ray.errors import MuloError
from mulo_ray.evaluation.charts import bars_svg
from mulo_ray.evaluation.finished import RunStore, object_name, setting, settings
from mulo_ray.evaluation.guarantee import Guarantee, batch_sentence, guarantee
from mulo_ray.evaluation.pages import render, snippet
from mulo_ray.evaluation.pictures import thumbnail_uri
from mulo_ray.evaluation.summary import Summary, summarise
from mulo_ray.evaluation.timeline_chart import timeline_svg
from mulo_ray.types import LedgerRow, Report

REPORT_JSON, REPORT_HTML = "report.json", "report.html"
MAX_TILES = 64
MAX_FAILURES = 100
_DECODER_OPTIONS = (
    *("tau", "neighbours", "radius", "redraw", "rows_per_cycle", "zipar_window", "upsampler", "refresh_cache"),
    *("verify_window", "chain", "tree", "tree_depth", "tree_top_k", "tree_nodes"),
    *("lantern_k", "lantern_delta", "lantern_lambda"),
    *("guidance", "temperature", "top_k", "top_p", "seed"),
)


def write_report(
    store: RunStore, report: Report, rows: Mapping[tuple[str, int], LedgerRow], resolved: Mapping[str, Any]
) -> None:
    """Write both files and note the page's address in `report.report_html`.

    `rows` are the effective ledger rows of the whole output by (key, sample); `resolved` is the resolved config, its
    pixel hash included. An image that cannot be read back becomes a gap with the reason, never an error.
    """
    report.report_html = store.uri_of(REPORT_HTML)
    ordered = [rows[key] for key in sorted(rows)]
    summary, promise = summarise(ordered), guarantee(resolved)
    store.put(REPORT_JSON, _as_json(report, summary, promise, resolved).encode())
    store.put(REPORT_HTML, _as_html(store, report, ordered, summary, promise, resolved).encode("utf-8", "replace"))


def _as_json(report: Report, summary: Summary, promise: Guarantee, resolved: Mapping[str, Any]) -> str:
    page = dataclasses.asdict(report) | {
        "exit_code": int(report.exit_code),
        "exact": promise.exact,
        "exact_reason": promise.reason,
        "batch_invariant": bool(setting(resolved, "batch_invariant")),
        "pixel_hash": setting(resolved, "pixel_hash"),
        "summary": dataclasses.asdict(summary),
        "config": dict(resolved),
    }
    return json.dumps(page, indent=1, default=str) + "\n"


def _as_html(
    store: RunStore,
    report: Report,
    rows: Sequence[LedgerRow],
    summary: Summary,
    promise: Guarantee,
    resolved: Mapping[str, Any],
) -> str:
    ok, failed = ([row for row in rows if row.status == status] for status in ("ok", "failed"))
    return render(
        "report.html.j2",
        report=report,
        headline=headline(report),
        promise=promise,
        batch_sentence=batch_sentence(resolved),
        pixel_hash=setting(resolved, "pixel_hash"),
        tiles=[_tile(store, row) for row in ok[:MAX_TILES]],
        ok_images=len(ok),
        decoder_line=decoder_line(resolved),
        summary=summary,
        # Trusted markup: our own SVG, whose labels matplotlib escapes.
        phases_svg=Markup(bars_svg(phases(summary), "s")),
        timeline_svg=Markup(timeline_svg(report.timeline)),
        run_phases=report.phases,
        failures=failed[:MAX_FAILURES],
        failed_rows=len(failed),
        settings=list(settings(resolved)),
    )


def phases(summary: Summary) -> dict[str, float]:
    """Seconds per image by phase; a role's busy time is the sum of its phases and no phase of its own."""
    return {name: seconds for name, seconds in summary.seconds.items() if not name.endswith("_busy")}


def headline(report: Report) -> str:
    """The run in one sentence."""
    if report.failed:
        return f"{report.made + report.done_before} of {report.total} images; {report.failed} failed"
    if not report.made:
        return f"Nothing to make: all {report.total} images were there"
    return f"{report.made} images made" + (f", {report.done_before} were there" if report.done_before else "")


def decoder_line(resolved: Mapping[str, Any]) -> str:
    """Family, sizes, decoder and its options, for people."""
    family, low, high, decoder = (setting(resolved, name) for name in ("family", "drafter_px", "target_px", "decoder"))
    sizes = f"{high} px" if low is None else f"{low} to {high} px"
    options = ((name.replace("_", " "), setting(resolved, name)) for name in _DECODER_OPTIONS)
    said = ", ".join(f"{name} {value}" for name, value in options if value is not None)
    return f"Family {family}, {sizes}, decoder {decoder}: {said}."


def _tile(store: RunStore, row: LedgerRow) -> dict[str, str]:
    label = row.key if not row.sample else f"{row.key} #{row.sample}"
    tile = {"caption": snippet(row.prompt, 120), "label": label, "image": "", "problem": ""}
    try:
        tile["image"] = thumbnail_uri(store.get(object_name(store, row)))
    except (MuloError, OSError, ValueError) as error:  # PIL raises OSError or ValueError on bytes that are no image
        tile["problem"] = f"not readable: {error}"
    return tile

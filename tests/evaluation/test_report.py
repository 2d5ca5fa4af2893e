"""The report tells what happened, says what is exact, and needs nothing but itself."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from run_outputs import FolderStore, add_image, report, resolved

from mulo_ray.evaluation.guarantee import batch_sentence, guarantee
from mulo_ray.evaluation.report import MAX_TILES, phases, write_report
from mulo_ray.evaluation.summary import Summary
from mulo_ray.types import LedgerRow


class _Page(HTMLParser):
    """Collects what a browser would load, and checks that every tag is closed."""

    VOID = frozenset({"meta", "img", "br", "link", "input", "hr"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def _written(store: FolderStore) -> tuple[dict, str]:
    return json.loads(store.get("report.json")), store.get("report.html").decode()


def test_counts_stats_and_config_are_all_there(store: FolderStore) -> None:
    rows: dict[tuple[str, int], LedgerRow] = {}
    for key in ("a", "b", "c"):
        add_image(store, rows, key)
    outcome = report(total=5, done_before=1, made=2, failed=1, retried=1, max_failed=0)
    write_report(store, outcome, rows, resolved())
    data, html = _written(store)
    counts = {name: data[name] for name in ("total", "done_before", "made", "failed", "retried", "exit_code")}
    assert counts == {"total": 5, "done_before": 1, "made": 2, "failed": 1, "retried": 1, "exit_code": 3}
    assert data["summary"]["per_image"]["forwards_target"] == {"mean": 40, "low": 40, "high": 40}
    assert data["summary"]["shares"] == {"accepted": 0.6, "rejected": 0.4, "resampled": 0.7}
    assert data["summary"]["seconds"] == pytest.approx({"draft": 0.1, "verify": 0.3})
    assert data["pixel_hash"] == "0123456789abcdef"
    assert data["config"]["config"]["decoding"]["tau"] == 0.1
    assert outcome.report_html == store.uri_of("report.html")
    for said in ("3 of 5 images; 1 failed", "60.0%", "0123456789abcdef", "config.decoding.tau", "exact: false"):
        assert said in html


@pytest.mark.parametrize(
    ("decoder", "exact"),
    [
        ({"decoder": "ar", "tau": None, "redraw": None}, True),
        ({"decoder": "mulo", "tau": 1.01, "redraw": "raster"}, True),
        ({"decoder": "mulo", "tau": 1.0, "redraw": "raster"}, False),
        ({"decoder": "mulo", "tau": 1.01, "redraw": "islands"}, False),
        ({"decoder": "mulo", "tau": 0.1, "redraw": "raster"}, False),
        ({"decoder": "zipar", "zipar_window": 4}, False),
        ({"decoder": "exact", "verify_window": 16}, True),
        ({"decoder": "speculative", "chain": 4}, True),
        ({"decoder": "eagle2"}, True),
        ({"decoder": "lantern", "lantern_delta": 0.4, "lantern_lambda": None}, False),
        ({"decoder": "lantern", "lantern_delta": 0.0, "lantern_lambda": None}, True),
        ({"decoder": "lantern", "lantern_delta": None, "lantern_lambda": 2.0}, False),
        ({"decoder": "lantern", "lantern_delta": None, "lantern_lambda": 1.0}, True),
    ],
)
def test_exactness_is_a_property_of_the_rules(store: FolderStore, decoder: dict, exact: bool) -> None:
    """docs/reports.md A4: users cannot tell which runs are exact."""
    write_report(store, report(), {}, resolved(decoder))
    data, html = _written(store)
    assert data["exact"] is exact
    assert f"exact: {str(exact).lower()}" in html
    assert data["exact_reason"] == guarantee(resolved(decoder)).reason


def test_batch_invariance_is_said_either_way() -> None:
    config = resolved()
    assert "Batch-invariant: yes" in batch_sentence(config)
    config["config"]["run"]["batch_invariant"] = False
    assert "batch size 8" in batch_sentence(config)


def test_page_loads_nothing_from_outside(store: FolderStore) -> None:
    rows: dict[tuple[str, int], LedgerRow] = {}
    add_image(store, rows, "small")
    add_image(store, rows, "large", side_px=700)
    write_report(store, report(), rows, resolved())
    html = store.get("report.html").decode()
    page = _Page(html)
    assert not page.open
    assert [address for address in page.loads if not address.startswith(("data:", "#"))] == []
    assert sum(address.startswith("data:image/") for address in page.loads) == 2
    assert "svg" in page.tags
    assert not re.search(r"https?://|@import|url\((?!#)", html)
    assert len(html) < 60_000  # the 700 px image went in as a thumbnail


def test_caption_is_text_not_markup(store: FolderStore) -> None:
    rows: dict[tuple[str, int], LedgerRow] = {}
    prompt = '<script>alert("x")</script> & 100% \N{SLICE OF PIZZA}'
    add_image(store, rows, "a", prompt=prompt)
    rows["b", 0] = LedgerRow(key="b", sample=0, status="failed", prompt=prompt, error="<b>bad</b>")
    write_report(store, report(failed=1), rows, resolved())
    html = store.get("report.html").decode()
    assert "script" not in _Page(html).tags
    assert html.count("&lt;script&gt;") >= 2
    assert "&lt;b&gt;bad&lt;/b&gt;" in html


def test_sheet_is_bounded_and_says_so(store: FolderStore) -> None:
    rows: dict[tuple[str, int], LedgerRow] = {}
    for n in range(MAX_TILES + 6):
        add_image(store, rows, f"k{n:03}", side_px=8)
    write_report(store, report(), rows, resolved())
    html = store.get("report.html").decode()
    assert html.count("<figure>") == MAX_TILES
    assert f"The first {MAX_TILES} of {MAX_TILES + 6} images" in html


def test_missing_image_is_a_gap_with_a_reason(store: FolderStore) -> None:
    rows: dict[tuple[str, int], LedgerRow] = {}
    add_image(store, rows, "a")
    add_image(store, rows, "b")
    add_image(store, rows, "c")
    (store.root / "images/a.png").unlink()
    store.put("images/b.png", b"no image")
    write_report(store, report(), rows, resolved())
    html = store.get("report.html").decode()
    assert html.count("not readable:") == 2
    assert html.count("<img ") == 1


def test_images_are_found_after_the_output_was_moved(store: FolderStore) -> None:
    rows: dict[tuple[str, int], LedgerRow] = {}
    add_image(store, rows, "a")
    moved = FolderStore(store.root.rename(store.root.with_name("elsewhere")))
    write_report(moved, report(), rows, resolved())
    assert "not readable" not in moved.get("report.html").decode()


def test_failures_carry_key_prompt_and_reason(store: FolderStore) -> None:
    for_good = LedgerRow(key="x/1", sample=0, status="failed", prompt="p" * 400, error="caption is null")
    for_now = LedgerRow(key="y", sample=2, status="failed", prompt="y", error="503", transient=True)
    write_report(store, report(failed=2), {("x/1", 0): for_good, ("y", 2): for_now}, resolved())
    html = store.get("report.html").decode()
    for said in ("x/1", "caption is null", "leaves it", "503", "tries again", "p" * 150):
        assert said in html
    assert "p" * 400 not in html


def test_run_without_any_row_still_reports(store: FolderStore) -> None:
    write_report(store, report(total=0, made=0), {}, resolved())
    data, html = _written(store)
    assert data["summary"]["images"] == 0
    assert "no finished image" in html


def test_a_roles_busy_time_is_no_phase() -> None:
    """The bars share out the time of an image: a sum among its parts would count everything twice."""
    seconds = {"verify": 0.3, "draft": 0.1, "target_busy": 0.3, "drafter_busy": 0.1}
    assert phases(Summary(images=1, images_with_stats=1, seconds=seconds)) == {"verify": 0.3, "draft": 0.1}

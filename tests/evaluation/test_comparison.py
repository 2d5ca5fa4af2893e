"""Runs side by side: the right numbers, and a refusal where they would mislead."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from run_outputs import FolderStore, add_image, png, report, resolved, stats

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.comparison import FinishedRun, compare, read_run, run_sheet, write_comparison
from mulo_ray.evaluation.pictures import contact_sheet
from mulo_ray.evaluation.report import write_report
from mulo_ray.types import LedgerRow

PLAIN = {"decoder": "ar", "tau": None, "redraw": None}


def _run(root: Path, config: dict[str, Any], seconds_run: float, made: int = 2, **counts: Any) -> FinishedRun:
    store = FolderStore(root)
    rows: dict[tuple[str, int], LedgerRow] = {}
    for key in ("a", "b"):
        add_image(store, rows, key)
        rows[key, 0] = dataclasses.replace(rows[key, 0], stats=stats(**counts))
    write_report(store, report(total=2, made=made, seconds=seconds_run), rows, config)
    return read_run(store, rows)


def test_table_holds_time_forwards_and_queries(tmp_path: Path) -> None:
    busy = {"seconds": {"target_busy": 1.5, "drafter_busy": 0.25, "verify": 0.5}}
    plain = _run(tmp_path / "ar", resolved(PLAIN), 8.0, forwards_target=256, forwards_drafter=0, query_positions=256)
    mulo = _run(
        tmp_path / "mulo", resolved(), 4.0, forwards_target=78, forwards_drafter=36, query_positions=1200, **busy
    )
    out = FolderStore(tmp_path / "out")
    lines = write_comparison(out, [plain, mulo])
    assert [line.label for line in lines] == ["ar", "mulo"]
    assert [line.seconds_per_image for line in lines] == [4.0, 2.0]
    assert [line.speed_up for line in lines] == [1.0, 2.0]
    assert [line.device_seconds for line in lines] == [None, 1.75]
    assert [line.forwards_target for line in lines] == [256, 78]
    assert [line.query_positions for line in lines] == [256, 1200]
    assert [line.exact for line in lines] == [True, False]
    assert json.loads(out.get("comparison.json"))[1]["forwards_drafter"] == 36
    html = out.get("comparison.html").decode()
    assert html.count("data:image/png") == 4
    assert "ar against mulo" in html


def test_other_sampling_settings_are_refused(tmp_path: Path) -> None:
    """docs/reports.md A4: `compare` of temperature 0 against 1 must refuse."""
    greedy = _run(tmp_path / "a", resolved(PLAIN, {"temperature": 0.0}), 8.0)
    sampled = _run(tmp_path / "b", resolved({}, {"temperature": 1.0}), 4.0)
    with pytest.raises(UsageError, match=r"temperature: 0\.0 against 1\.0"):
        compare([greedy, sampled])


def test_resumed_run_claims_no_speed(tmp_path: Path) -> None:
    whole = _run(tmp_path / "a", resolved(PLAIN), 8.0)
    resumed = _run(tmp_path / "b", resolved(), 1.0, made=1)
    line = compare([whole, resumed])[1]
    assert line.seconds_per_image is None
    assert line.speed_up is None


def test_output_without_a_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing-here"):
        read_run(FolderStore(tmp_path / "nothing-here"), {})


def test_one_run_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two finished runs"):
        compare([_run(tmp_path, resolved(), 1.0)])


def test_contact_sheet_holds_every_tile() -> None:
    tiles = [("a very long caption that needs more than three lines to be said " * 4, png(32)), ("b", png(300))] * 5
    with Image.open(io.BytesIO(contact_sheet(tiles, columns=4, tile_px=100))) as sheet:
        reds = sum(count for count, colour in sheet.getcolors(1 << 24) if colour == (200, 60, 40))
    assert reds == 10 * 100 * 100
    with pytest.raises(UsageError, match="at least one tile"):
        contact_sheet([])


def test_run_sheet_takes_finished_images_only(tmp_path: Path) -> None:
    run = _run(tmp_path, resolved(), 1.0)
    run.rows["c", 0] = LedgerRow(key="c", sample=0, status="failed")  # type: ignore[index]
    with Image.open(io.BytesIO(run_sheet(run, columns=2))) as sheet:
        assert sheet.width > sheet.height

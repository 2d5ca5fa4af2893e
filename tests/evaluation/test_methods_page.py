"""The table, compare.json and compare.html of a comparison, from plain data."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
from run_outputs import FolderStore, png

from mulo_ray.evaluation.methods import plots
from mulo_ray.evaluation.methods.cells import Bound, Method, MethodsCompared, Row
from mulo_ray.evaluation.methods.page import write_methods
from mulo_ray.evaluation.methods.table import methods_text

FIELDS = (
    "decoder setting drafter_px target_px batch seconds_per_image images_per_s speedup_vs_ar forwards_target "
    "forwards_drafter query_positions accepted resampled depth nll fd judge_top5 n"
).split()


def _row(decoder: str, batch: int, speedup: float, **values: object) -> Row:
    fields = dict.fromkeys(FIELDS) | {
        "decoder": decoder, "setting": "s=8 <i>", "target_px": 128, "batch": batch, "seconds_per_image": 1 / speedup,
        "images_per_s": speedup, "speedup_vs_ar": speedup, "forwards_target": 256.0, "forwards_drafter": 0.0,
        "query_positions": 255.0, "nll": 2.5, "judge_top5": 0.25, "n": 256,
    }  # fmt: skip
    return Row(**fields | values)


def _compared() -> MethodsCompared:
    plain = Method(
        decoder="ar", setting="exact shapes", drafter_px=None, phases={1: {"decode": 1.0}, 4: {"decode": 0.5}}
    )
    mulo = Method(
        decoder="mulo",
        setting="s=8 <i>",
        drafter_px=64,
        headline=True,
        fd_ratio=Bound(estimate=1.01, lower=0.95, upper=1.07),
        top5_difference=Bound(estimate=-0.015, lower=-0.04, upper=0.01),
        same_tokens=0.25,
        compared=1000,
        rejected_HW=np.eye(16) * 0.5,
        phases={1: {"draft": 0.1, "verify": 0.2}, 4: {"draft": 0.05, "verify": 0.1}},
        sheet=[png()],
    )
    rows = [_row("ar", 1, 1.0), _row("ar", 4, 1.0), _row("mulo", 1, 2.5, drafter_px=64, accepted=200.0, fd=41.5)]
    rows.append(_row("mulo", 4, 2.0, drafter_px=64, accepted=200.0, fd=41.5))
    return MethodsCompared(
        command="python jobs/compare.py",
        fixed={"temperature": 0.3},
        rows=rows,
        methods=[plain, mulo],
        skipped=[("eagle2", "--decoder eagle2 needs an EAGLE head")],
        rounds={1: 32, 4: 8},
        captions=["a <b> cat"],
        quality_note="quality: n = 256 pictures",
    )


def test_rows_have_exactly_the_fields_of_the_format(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    where = write_methods(store, _compared())
    rows = json.loads((tmp_path / "compare.json").read_text())
    assert [list(row) for row in rows] == [FIELDS] * 4
    assert rows[2]["speedup_vs_ar"] == 2.5
    assert rows[0]["accepted"] is None
    page = Path(where).read_text()
    assert page.count("<svg") == 4
    assert "a &lt;b&gt; cat" in page
    assert "s=8 &lt;i&gt;" in page
    assert "needs an EAGLE head" in page
    assert "-1.5 pt" in page
    assert not re.search(r'(src|href)="https?:', page), "the page stands alone"


def test_the_table_tells_counts_quality_parity_and_what_was_skipped() -> None:
    lines = methods_text(_compared()).splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["decoder", "ar", "mulo", "ar", "mulo"], "by batch size"
    assert "2.50x" in lines[2]
    assert "32 at batch 1, 8 at batch 4" in "\n".join(lines)
    assert any(
        line.split()[-6:] == ["-1.5", "pt", "-4.0", "pt", "1.010", "1.070", "25.0%", "1000"][-6:] for line in lines
    )
    assert lines[-1] == "skipped eagle2: --decoder eagle2 needs an EAGLE head"


def test_without_quality_or_drafts_those_plots_are_left_out(tmp_path: Path) -> None:
    compared = _compared()
    bare = [dataclasses.replace(row, nll=None, fd=None, judge_top5=None, n=0) for row in compared.rows[:1]]
    assert plots.quality_svg(bare) == plots.batch_svg(bare) == plots.rejections_svg(compared.methods[:1]) == ""
    compared = dataclasses.replace(compared, rows=bare, methods=compared.methods[:1], skipped=(), captions=())
    page = Path(write_methods(FolderStore(tmp_path), compared)).read_text()
    assert page.count("<svg") == 1
    assert "Not measured" not in page
    assert "against ar" not in methods_text(compared)

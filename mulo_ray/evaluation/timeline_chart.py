"""What each device of a run did, as one lane of inline SVG per device. Knows names and numbers only."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from mulo_ray.evaluation.charts import inline_svg

MAX_LANES = 32
_TEXT, _BUSY, _WAIT, _FLOOR = "#7b8494", "#5b8dbd", "#d9a45b", "#c3c9d2"  # readable on light and on dark paper
_HEIGHT = 0.72


def timeline_svg(timeline: Mapping[str, Any], width_in: float = 9.2) -> str:
    """Lanes over seconds: busy from below, waiting above it, the rest idle; "" where nothing was measured.

    `timeline` is `report.json`'s. The first MAX_LANES lanes are drawn.
    """
    lanes = list(timeline.get("lanes", ()))[:MAX_LANES]
    if not lanes:
        return ""
    figure = Figure(figsize=(width_in, 0.44 * len(lanes) + 0.9), layout="tight")
    axes = figure.subplots()
    edges = np.arange(len(lanes[0]["busy"]) + 1) * timeline["bin_s"]
    for row, lane in enumerate(reversed(lanes)):
        busy, wait = (np.append(lane[name], lane[name][-1:]) * _HEIGHT for name in ("busy", "wait"))
        top = np.minimum(busy + wait, _HEIGHT)
        axes.fill_between(edges, row, row + busy, step="post", color=_BUSY, linewidth=0)
        axes.fill_between(edges, row + busy, row + top, step="post", color=_WAIT, linewidth=0, alpha=0.7)
        axes.axhline(row, color=_FLOOR, linewidth=0.6)
        shares = f"busy {lane['busy_share']:.0%}, waits {lane['wait_share']:.0%}, idle {lane['idle_share']:.0%}"
        axes.text(1.01, row + 0.2, shares, transform=axes.get_yaxis_transform(), color=_TEXT, fontsize=8)
    names = [f"{lane['label']}\n{lane['device']}" for lane in reversed(lanes)]
    axes.set_yticks([row + _HEIGHT / 2 for row in range(len(lanes))], names)
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, len(lanes))
    axes.set_xlabel("seconds since the first work", color=_TEXT, fontsize=8)
    axes.tick_params(length=0, labelcolor=_TEXT, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    legend = [Patch(color=_BUSY, label="busy"), Patch(color=_WAIT, label="waits with work open")]
    axes.legend(
        handles=legend, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8, labelcolor=_TEXT
    )
    return inline_svg(figure)

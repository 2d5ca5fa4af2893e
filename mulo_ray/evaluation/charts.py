"""Bar plots as inline SVG, without a display and without a link to anywhere. Knows names and numbers only."""

import io
import re
from collections.abc import Mapping

import matplotlib
from matplotlib.figure import Figure

_TEXT, _BAR = "#7b8494", "#5b8dbd"  # readable on light and on dark paper


def bars_svg(values: Mapping[str, float], unit: str, width_in: float = 7.2) -> str:
    """Horizontal bars, largest first, each labelled with its value and share; "" where there is nothing to draw."""
    items = sorted(values.items(), key=lambda item: item[1])
    total = sum(values.values())
    if not items or total <= 0:
        return ""
    figure = Figure(figsize=(width_in, 0.42 * len(items) + 0.35), layout="tight")
    axes = figure.subplots()
    bars = axes.barh([name for name, _ in items], [value for _, value in items], height=0.62, color=_BAR)
    labels = [f"{value:.3g} {unit}  ({value / total:.0%})" for _, value in items]
    axes.bar_label(bars, labels=labels, padding=6, color=_TEXT, fontsize=9)
    axes.margins(x=0.28)
    axes.tick_params(axis="y", length=0, labelcolor=_TEXT, labelsize=9)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return inline_svg(figure)


def inline_svg(figure: Figure) -> str:
    """A figure as an <svg> element that stands inside HTML."""
    buffer = io.StringIO()
    # Text stays text (selectable, small); a fixed salt makes the file a function of the numbers.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mulo", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue())


def _inline(svg: str) -> str:
    """The <svg> element alone: inside HTML it needs no prolog, no metadata and no namespace addresses."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)

"""Curves of what a stage logged, one panel per kind of figure. Knows no files."""

import io
from collections.abc import Sequence

_PANELS = (("loss", "nats or loss"), ("nll", "held-out and seen, nats per token"), ("psnr", "dB"))
_NO_CURVE = frozenset({"step", "eta_s", "pictures_per_s", "epoch"})


def plot_metrics(title: str, records: Sequence[dict[str, float]]) -> bytes:
    """A PNG of every logged figure over the step; figures share a panel by the word in their name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = sorted({name for record in records for name in record} - _NO_CURVE)
    panels = [(word, unit, [name for name in names if word in name]) for word, unit in _PANELS]
    panels = [panel for panel in panels if panel[2]]
    figure = Figure(figsize=(5 * max(1, len(panels)), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (word, unit, chosen) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        for name in chosen:
            points = [(record["step"], record[name]) for record in records if name in record]
            axes.plot(*zip(*points, strict=True), label=name)
        axes.set(title=f"{title}: {word}", xlabel="step", ylabel=unit)
        axes.legend(fontsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()

"""The plots of a comparison as inline SVG: quality against speed, speed over batch, lost drafts by cell, time by phase.

Knows rows and methods only.
"""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mulo_ray.evaluation.charts import inline_svg
from mulo_ray.evaluation.methods.cells import Method, Row

_TEXT, _GRID = "#7b8494", "#c3c9d2"  # readable on light and on dark paper
_COLOURS = {
    "ar": "#8a8f99",
    "zipar": "#d9a45b",
    "exact": "#6aa37b",
    "speculative": "#a3795f",
    "eagle2": "#8d7bc0",
    "lantern": "#c06a8b",
    "mulo": "#5b8dbd",
}
_PHASES = {
    "draft": "#d9a45b",
    "prefill": "#c3c9d2",
    "upsample": "#8d7bc0",
    "verify": "#5b8dbd",
    "resample": "#6aa37b",
    "decode": "#8a8f99",
}
_MARKS = "osD^vPX*"
QUALITIES: tuple[tuple[str, str], ...] = (
    ("judge_top5", "top-5 rate of the judge"),
    ("fd", "FD-EffLite0 (lower is better)"),
    ("nll", "nats per token"),
)


def quality_svg(rows: Sequence[Row]) -> str:
    """Quality against speed-up at the smallest batch: a curve per method, a point per setting; "" without quality."""
    batch = min((row.batch for row in rows), default=0)
    shown = [row for row in rows if row.batch == batch]
    panels = [(name, label) for name, label in QUALITIES if any(getattr(row, name) is not None for row in shown)]
    if not panels:
        return ""
    figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
    for axes, (name, label) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for key, own in _by_method(shown).items():
            points = sorted((row.speedup_vs_ar, getattr(row, name)) for row in own if getattr(row, name) is not None)
            _curve(axes, key, points)
        _dress(axes, f"speed-up over ar, batch {batch}", label)
    _legend(figure)
    return inline_svg(figure)


def batch_svg(rows: Sequence[Row]) -> str:
    """Speed-up and images per second over batch size, a curve per setting; "" where one batch size was measured."""
    batches = sorted({row.batch for row in rows})
    if len(batches) < 2:
        return ""
    figure = Figure(figsize=(9.2, 3.6), layout="constrained")
    panels: tuple[tuple[str, Callable[[Row], float]], ...] = (
        ("speed-up over ar at that batch", lambda row: row.speedup_vs_ar),
        ("images per second", lambda row: row.images_per_s),
    )
    for axes, (label, value) in zip(figure.subplots(1, 2), panels, strict=True):
        first: set[tuple[str, int | None]] = set()
        for own in _by_setting(rows).values():
            key = (own[0].decoder, own[0].drafter_px)
            _curve(axes, key, [(row.batch, value(row)) for row in own], named=key not in first)
            first.add(key)
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.minorticks_off()
        _dress(axes, "batch", label)
    _legend(figure)
    return inline_svg(figure)


def rejections_svg(methods: Sequence[Method], most: int = 8) -> str:
    """Where drafts are refused: a map over the cells per method, the first setting of each; "" where nothing drafts."""
    shown: dict[tuple[str, int | None], Method] = {}
    for method in methods:
        if method.rejected_HW is not None:
            shown.setdefault((method.decoder, method.drafter_px), method)
    if not shown:
        return ""
    chosen = list(shown.values())[:most]
    columns = min(4, len(chosen))
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.3 * columns + 0.8, 2.5 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, method in zip(grid.flat, chosen, strict=False):
        image = axes.imshow(method.rejected_HW, vmin=0, vmax=1, cmap="viridis")
        drafter = "" if method.drafter_px is None else f" from {method.drafter_px} px"
        share = float(method.rejected_HW.mean()) if method.rejected_HW is not None else 0.0
        axes.set_title(f"{method.decoder}{drafter}\n{share:.0%} of the cells", fontsize=8, color=_TEXT)
    bar = figure.colorbar(image, ax=grid, shrink=0.8)
    bar.ax.tick_params(labelcolor=_TEXT, labelsize=8, length=0)
    bar.outline.set_visible(False)
    return inline_svg(figure)


def phases_svg(methods: Sequence[Method], most: int = 24) -> str:
    """Seconds per image by phase, a stacked bar per setting, a panel per batch size."""
    shown = list(methods)[:most]
    batches = sorted({batch for method in shown for batch in method.phases})
    if not batches:
        return ""
    figure = Figure(figsize=(9.6, 0.34 * len(shown) + 1.2), layout="constrained")
    used: set[str] = set()
    for place, (axes, batch) in enumerate(
        zip(figure.subplots(1, len(batches), squeeze=False, sharey=True)[0], batches, strict=True)
    ):
        for line, method in enumerate(shown):
            left = 0.0
            for phase, seconds in _in_order(method.phases.get(batch, {})):
                label = None if phase in used else phase
                axes.barh(line, seconds, left=left, height=0.66, color=_PHASES.get(phase, _TEXT), label=label)
                used.add(phase)
                left += seconds
        _dress(axes, f"seconds per image, batch {batch}", "")
        if place == 0:
            axes.set_yticks(range(len(shown)), [method.name for method in shown])
            axes.invert_yaxis()
    _legend(figure)
    return inline_svg(figure)


def _by_method(rows: Sequence[Row]) -> dict[tuple[str, int | None], list[Row]]:
    found: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        found.setdefault((row.decoder, row.drafter_px), []).append(row)
    return found


def _by_setting(rows: Sequence[Row]) -> dict[tuple[str, int | None, str], list[Row]]:
    found: dict[tuple[str, int | None, str], list[Row]] = {}
    for row in sorted(rows, key=lambda one: one.batch):
        found.setdefault((row.decoder, row.drafter_px, row.setting), []).append(row)
    return found


def _curve(axes: Axes, key: tuple[str, int | None], points: Sequence[tuple[float, float]], named: bool = True) -> None:
    decoder, drafter_px = key
    label = decoder if drafter_px is None else f"{decoder}, {drafter_px} px"
    mark = _MARKS[(drafter_px or 0) // 32 % len(_MARKS)]
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        color=_COLOURS.get(decoder, _TEXT),
        marker=mark,
        markersize=4.5,
        linewidth=1.2,
        label=label if named else None,
    )


def _dress(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, color=_TEXT, fontsize=8)
    axes.set_ylabel(y, color=_TEXT, fontsize=8)
    axes.tick_params(length=0, labelcolor=_TEXT, labelsize=8)
    axes.grid(color=_GRID, linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _legend(figure: Figure) -> None:
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside upper left",
        ncols=6,
        frameon=False,
        fontsize=8,
        labelcolor=_TEXT,
    )


def _in_order(phases: Mapping[str, float]) -> list[tuple[str, float]]:
    known = [name for name in _PHASES if name in phases]
    return [(name, phases[name]) for name in [*known, *sorted(set(phases) - set(known))]]

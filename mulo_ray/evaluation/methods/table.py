"""A comparison of methods as a table for a terminal."""

from collections.abc import Sequence

from mulo_ray.evaluation.methods.cells import Method, MethodsCompared, Row
from mulo_ray.evaluation.pages import short

_HEAD = (
    *("decoder", "setting", "drafter", "batch", "s/image", "images/s", "speed-up", "target fwd", "drafter fwd"),
    *("queries", "accepted", "resampled", "depth", "nll", "fd", "top-5", "n"),
)
_LEFT = 2  # columns of words


def methods_text(compared: MethodsCompared) -> str:
    """Rows by batch size, the distance of each setting from plain decoding, and what was skipped and why."""
    batches = sorted({row.batch for row in compared.rows})
    parts = [_aligned([_HEAD, *(_cells(row) for batch in batches for row in compared.rows if row.batch == batch)])]
    pairs = ", ".join(f"{compared.rounds[batch]} at batch {batch}" for batch in batches)
    parts.append(f"speed-up: over ar with exact shapes at the same batch, medians of pairs run in turn ({pairs})")
    parts.append(compared.quality_note)
    against = [method for method in compared.methods if method.top5_difference is not None]
    if against:
        head = ("decoder", "setting", "top-5 difference", "95 % low", "fd ratio", "95 % high", "same tokens", "n")
        parts.append("\nagainst ar on the same captions\n" + _aligned([head, *map(_against, against)]))
    if compared.skipped:
        parts.append("\n" + "\n".join(f"skipped {name}: {reason}" for name, reason in compared.skipped))
    return "\n".join(part for part in parts if part)


def points(value: float) -> str:
    """A difference of rates in percentage points, signed."""
    return f"{100 * value:+.1f} pt"


def _cells(row: Row) -> tuple[str, ...]:
    drafter = "-" if row.drafter_px is None else f"{row.drafter_px} px"
    top5 = "-" if row.judge_top5 is None else f"{row.judge_top5:.1%}"
    return (
        *(row.decoder, row.setting, drafter, str(row.batch)),
        *(short(row.seconds_per_image), short(row.images_per_s), f"{row.speedup_vs_ar:.2f}x"),
        *(short(row.forwards_target), short(row.forwards_drafter), short(row.query_positions)),
        *(short(row.accepted), short(row.resampled), short(row.depth)),
        *(short(row.nll), short(row.fd), top5, str(row.n)),
    )


def _against(method: Method) -> tuple[str, ...]:
    top5, ratio = method.top5_difference, method.fd_ratio
    assert top5 is not None, "the method was judged"
    same = "-" if method.same_tokens is None else f"{method.same_tokens:.1%}"
    distance = ("-", "-") if ratio is None else (f"{ratio.estimate:.3f}", f"{ratio.upper:.3f}")
    label = method.setting if method.drafter_px is None else f"{method.drafter_px} px, {method.setting}"
    return (method.decoder, label, points(top5.estimate), points(top5.lower), *distance, same, str(method.compared))


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )

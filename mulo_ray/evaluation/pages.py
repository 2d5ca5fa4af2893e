"""Renders the package's templates: escaped by default, every name required. Knows words and numbers, no run."""

import functools
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

COUNT_NAMES = {
    "forwards_target": "target forwards",
    "forwards_drafter": "drafter forwards",
    "query_positions": "query positions",
    "cycles": "cycles",
    "accepted": "cells accepted",
    "rejected": "cells rejected",
    "resampled": "cells resampled",
    "islands": "islands",
    "depth": "depth (serial forwards of resampling)",
}


def render(template: str, **values: Any) -> str:
    """One page as text."""
    return _environment().get_template(template).render(count_names=COUNT_NAMES, **values)


def short(value: float | None) -> str:
    """Three significant digits, thousands grouped; a dash for None."""
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """Seconds as a person says them: 3.2 s, 4 min 05 s, 2 h 03 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02} min"


def snippet(text: str, length: int = 160) -> str:
    """The beginning of a prompt on one line."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 4].rstrip() + " ..."


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mulo_ray.evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "short": short,
        "duration": duration,
        "snippet": snippet,
        "percent": lambda share: f"{share:.1%}",
    }
    return environment

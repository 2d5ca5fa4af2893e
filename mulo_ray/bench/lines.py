"""One figure of `make bench`: {name, value, unit, goal, pass, command}."""

from typing import Any

Line = dict[str, Any]


def line(name: str, value: float, unit: str, command: str, at_least: float | None = None) -> Line:
    """A figure; without a goal it passes."""
    passed = at_least is None or value >= at_least
    return {
        "name": name,
        "value": float(f"{value:.4g}"),
        "unit": unit,
        "goal": at_least,
        "pass": passed,
        "command": command,
    }

"""One figure of the benchmark commands: {name, value, unit, goal, pass, command}, and how it is printed."""

from typing import Any

Line = dict[str, Any]


def line(
    name: str,
    value: float,
    unit: str,
    command: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Line:
    """A figure to four significant digits, beside the one bound that is its goal; without a goal it passes."""
    assert at_least is None or at_most is None, "a figure has one goal"
    goal = at_most if at_least is None else at_least
    passed = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
    shown = float(f"{value:.4g}")
    return {"name": name, "value": shown, "unit": unit, "goal": goal, "pass": passed, "command": command}


def line_text(line: Line) -> str:
    """A figure for people: value, goal, verdict, name."""
    goal = "" if line["goal"] is None else f"goal {line['goal']:g}"
    verdict = "" if line["goal"] is None else "ok" if line["pass"] else "MISS"
    return f"{line['value']:>10.4g} {line['unit']:<14} {goal:<11} {verdict:<4} {line['name']}"

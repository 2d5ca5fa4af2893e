"""Figures beside their goals, as `make bench-ray` writes them, and a process of its own for each trial."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from mulo_ray.benchmark import Line

Value = TypeVar("Value")


def figure(
    name: str,
    value: float,
    unit: str,
    command: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Line:
    """One line of the list; without a goal it passes."""
    goal = at_most if at_least is None else at_least
    passes = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": goal, "pass": passes, "command": command}


def line_text(line: Line) -> str:
    """One line for people: value, goal, verdict, name."""
    goal = "" if line["goal"] is None else f"goal {line['goal']:g}"
    return f"{line['value']:>10.4g} {line['unit']:<14} {goal:<11} {'ok  ' if line['pass'] else 'MISS'} {line['name']}"


def in_fresh_process(trial: Callable[..., Value], *args: Any, **options: Any) -> Value:
    """Call `trial` in a new Python: its Ray, its memory and its datasets meet no other trial's."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(trial, *args, **options).result()

"""A process of its own for each trial."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Value = TypeVar("Value")


def in_fresh_process(trial: Callable[..., Value], *args: Any, **options: Any) -> Value:
    """Call `trial` in a new Python: its Ray, its memory and its datasets meet no other trial's."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(trial, *args, **options).result()

"""Which shape of group suits a run: from phase times measured on its first micro-batches, and what the cluster holds.

Arithmetic on numbers; knows no Ray and no model. Threads are never chosen here: bytes may depend on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mulo_ray.config import GroupName
from mulo_ray.workers.placement import Placement
from mulo_ray.workers.shapes import Node

SHAPES: tuple[GroupName, ...] = ("shared", "1:1", "1:2", "1:3")
TRIAL_BLOCKS = 3
"""Micro-batches that are measured; the median is taken, so the first one's warm-up does not count."""
WORTH_BLOCKS = 12
"""A run with fewer micro-batches is over before a choice pays."""
NEAR = 0.97
"""A shape this close to the fastest is as good; then the one named first in SHAPES is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Busy seconds per micro-batch."""

    drafter_s: float
    target_s: float  # rendering included: it happens on the target's device


def expected_rate(placement: Placement, phases: Phases, in_flight: int, nodes: Sequence[Node]) -> float:
    """Micro-batches per second of all groups: held back by the slower role, by too few in flight, or by the cores."""
    shape, both_s = placement.shape, phases.drafter_s + phases.target_s
    if shape.shared or shape.shares_gpu:
        one = 1 / both_s
    else:
        one = min(1 / phases.drafter_s, shape.targets / phases.target_s, in_flight * shape.targets / both_s)
    rate = placement.groups * one
    if shape.device == "cpu":
        cores = sum(node.get("CPU", 0) for node in nodes)
        rate = min(rate, cores / shape.threads / both_s)
    return rate


def choose(
    placements: Mapping[GroupName, Placement], phases: Phases, *, batch_size: int, in_flight: int, nodes: Sequence[Node]
) -> tuple[GroupName, str]:
    """(the shape to run, a sentence that says why). `placements` are the shapes that fit, by name."""
    rates = {name: expected_rate(placements[name], phases, in_flight, nodes) for name in SHAPES if name in placements}
    best = max(rates.values())
    chosen = next(name for name, rate in rates.items() if rate >= NEAR * best)
    told = ", ".join(f"{placements[name].groups} x {name} {rate * batch_size:.3g}" for name, rate in rates.items())
    return chosen, (
        f"--group auto: a micro-batch of {batch_size} keeps the drafter {phases.drafter_s:.3g} s and the target "
        f"{phases.target_s:.3g} s busy; images/s to expect: {told}; taking {chosen}"
    )

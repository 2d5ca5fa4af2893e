"""What a run tells a Prometheus that watches its cluster; Ray exports every name with `ray_` before it.

Counts are made in the driver, where every row arrives once, whoever made it how often. Knows no store and no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.util.metrics import Counter, Gauge, Metric

from mulo_ray.workers.blocks import Stored

COUNTERS = {
    "mulo_images_total": ("Images by what became of them", ("status",)),  # ok, failed
    "mulo_forwards_total": ("Forwards of a network, summed over images", ("role",)),  # drafter, target
    "mulo_cells_total": ("Draft cells by verdict, and cells drawn anew", ("verdict",)),  # accepted, rejected, resampled
    "mulo_micro_batches_total": ("Micro-batches decoded", ()),
    "mulo_phase_seconds_total": ("Busy seconds by phase", ("phase",)),  # drafter, target, render, put
    "mulo_device_busy_seconds_total": ("Seconds that a role computed", ("group", "role", "device")),
    "mulo_device_wait_seconds_total": ("Seconds a role waited with a micro-batch open", ("group", "role", "device")),
}
GAUGES = {
    "mulo_images_left": ("Images of this run that have no outcome yet", ()),
    "mulo_micro_batches_queued": ("Micro-batches handed to a group that wait for their turn", ("group",)),
    "mulo_micro_batches_in_flight": ("Micro-batches that a group decodes", ("group",)),
}
"""name -> (what it says, its tags). All have the tag `run` too, the Ray job's id: `job` is taken by Prometheus."""


class RunMetrics:
    """The driver's half: told of every ledger row once, as it arrives."""

    def __init__(self, wanted: int) -> None:
        self._metrics = {name: _metric(Counter, name) for name in COUNTERS}
        self._left = _metric(Gauge, "mulo_images_left")
        self._wanted = wanted
        self._left.set(wanted)

    def add(self, stored: Sequence[Stored]) -> None:
        """Rows that were not seen before."""
        for one in stored:
            self._inc("mulo_images_total", 1, status=one.row.status)
            if one.row.stats:
                self._add_costs(json.loads(one.row.stats))
            if one.timing:
                self._add_timing(one.timing)
            if one.put_s is not None:
                self._inc("mulo_phase_seconds_total", one.put_s, phase="put")
        self._wanted -= len(stored)
        self._left.set(self._wanted)

    def _add_costs(self, costs: dict[str, Any]) -> None:
        for role in ("drafter", "target"):
            self._inc("mulo_forwards_total", costs.get(f"forwards_{role}", 0), role=role)
        for verdict in ("accepted", "rejected", "resampled"):
            self._inc("mulo_cells_total", costs.get(verdict, 0), verdict=verdict)

    def _add_timing(self, timing: dict[str, Any]) -> None:
        self._inc("mulo_micro_batches_total", 1)
        for name, seconds in timing["seconds"].items():
            self._inc("mulo_phase_seconds_total", seconds, phase=name.removesuffix("_s"))
        for lane in timing["lanes"]:
            tags = {"group": _short(timing["group"]), "role": lane["role"], "device": lane["device"]}
            self._inc("mulo_device_busy_seconds_total", sum(end - start for start, end, _ in lane["laps"]), **tags)
            self._inc("mulo_device_wait_seconds_total", sum(waited for _, _, waited in lane["laps"]), **tags)

    def _inc(self, name: str, value: float, **tags: str) -> None:
        if value > 0:  # Ray refuses others
            self._metrics[name].inc(value, tags=tags)


class GroupMetrics:
    """The half of one group: how many micro-batches wait in it and work in it."""

    def __init__(self) -> None:
        tags = {"group": _short(ray.get_runtime_context().get_actor_id() or "")}
        self._queued = _metric(Gauge, "mulo_micro_batches_queued", tags)
        self._flying = _metric(Gauge, "mulo_micro_batches_in_flight", tags)
        self._held = self._turns = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """The body has a micro-batch, from its arrival to its outcomes."""
        self._held += 1
        self._show()
        try:
            yield
        finally:
            self._held -= 1
            self._show()

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """The body decodes it."""
        self._turns += 1
        self._show()
        try:
            yield
        finally:
            self._turns -= 1
            self._show()

    def _show(self) -> None:
        self._queued.set(max(0, self._held - self._turns))
        self._flying.set(self._turns)


def _metric(kind: type[Metric], name: str, tags: dict[str, str] | None = None) -> Any:
    description, keys = (COUNTERS | GAUGES)[name]
    metric = kind(name, description=description, tag_keys=(*keys, "run"))
    metric.set_default_tags({"run": ray.get_runtime_context().get_job_id()} | (tags or {}))
    return metric


def _short(actor: str) -> str:
    """Enough of an actor's id to tell the groups of a run apart."""
    return actor[:8]

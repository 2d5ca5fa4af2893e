"""Where the role actors of a group go: onto the devices that the group's own actor holds, or into a placement group
across nodes. Called inside that actor; knows no model.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from mulo_ray.errors import PlacementError
from mulo_ray.workers.shapes import GroupShape

_NEVER_ALONE = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
"""A role actor that dies is never restarted alone: its group ends, and a fresh one starts all of them."""


class Reservation(Protocol):
    """The devices of one group."""

    def places(self) -> list[dict[str, Any]]:
        """Actor options, one per process of the shape; waits until the devices are held."""

    def release(self) -> None:
        """Give back what this reservation itself holds."""


def reserve(shape: GroupShape, wait_s: float) -> Reservation:
    """The reservation of the calling group's actor."""
    return AcrossNodes(shape, wait_s) if shape.spread else OneNode(shape)


class OneNode:
    """The group's own actor holds the devices, by its num_gpus; its children inherit node and devices and reserve
    nothing. Nothing outlives the actor."""

    def __init__(self, shape: GroupShape) -> None:
        self._shape = shape

    def places(self) -> list[dict[str, Any]]:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        return [
            {**_NEVER_ALONE, "num_gpus": 0, "scheduling_strategy": here, **self._pinned(process)}
            for process in range(self._shape.processes)
        ]

    def _pinned(self, process: int) -> dict[str, Any]:
        if self._shape.device != "cuda":
            return {}
        held = ray.get_gpu_ids()
        return {"runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": str(held[min(process, len(held) - 1)])}}}

    def release(self) -> None:
        """The actor's end does it."""


class AcrossNodes:
    """A placement group of one GPU per process, packed as closely as the cluster allows.

    Named after the run and the group's actor, so that a group that Ray restarts finds its own again. It lives until
    `release`, or until the driver calls `remove_all`, or the driver ends.
    """

    def __init__(self, shape: GroupShape, wait_s: float) -> None:
        context = ray.get_runtime_context()
        name = f"{_prefix(context.get_job_id())}{context.get_actor_id()}"
        self._processes = shape.processes
        try:
            self._held: PlacementGroup = get_placement_group(name)
        except ValueError:
            self._held = placement_group([{"GPU": 1}] * shape.processes, strategy="PACK", name=name)
        if not self._held.wait(wait_s):
            self.release()
            raise PlacementError(
                f"no {shape.processes} GPUs across nodes came free for a group in {wait_s:g} s: other jobs hold them"
            )

    def places(self) -> list[dict[str, Any]]:
        return [
            {
                **_NEVER_ALONE,
                "num_gpus": 1,
                "scheduling_strategy": PlacementGroupSchedulingStrategy(
                    self._held, placement_group_bundle_index=bundle
                ),
            }
            for bundle in range(self._processes)
        ]

    def release(self) -> None:
        with contextlib.suppress(Exception):  # removed already, or the cluster is gone
            remove_placement_group(self._held)


def remove_all() -> None:
    """Remove every placement group that groups of this driver made: the last resort after failures and Ctrl-C."""
    prefix = _prefix(ray.get_runtime_context().get_job_id())
    for told in placement_group_table().values():
        if told["name"].startswith(prefix) and told["state"] != "REMOVED":
            with contextlib.suppress(ValueError):  # gone in the meantime
                remove_placement_group(get_placement_group(told["name"]))


def _prefix(job: str) -> str:
    return f"mulo-{job}-"

"""The Ray Data pipeline: blocks from the driver -> text stage if any -> groups -> writer -> ledger rows to the driver.

Knows no model, store or file format: it is handed roles and a `put`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import ray.data
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import mulo_ray.errors
from mulo_ray.errors import PlacementError, RunError, WorkerLostError
from mulo_ray.types import LedgerRow
from mulo_ray.workers.attempts import Attempts
from mulo_ray.workers.blocks import Stored, block_tables, one_by_one, read_rows
from mulo_ray.workers.conditioner import TextStage
from mulo_ray.workers.group import ROUND_TIMEOUT_S, Group
from mulo_ray.workers.metrics import RunMetrics
from mulo_ray.workers.placement import CPUS_PER_SPREAD_GROUP, CPUS_PER_WRITER, Placement
from mulo_ray.workers.reservation import remove_all
from mulo_ray.workers.roles import Item, Roles
from mulo_ray.workers.timeline import Timeline
from mulo_ray.workers.writer import GROUPS_PER_WRITER, Put, Writer

READ_AHEAD = 3
"""Micro-batches that a group is handed per turn it has: their prompts are read by a busy role, so they come early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLimits:
    """How long the stage waits for what may never come (seconds)."""

    start_s: int = 900  # all groups up, weights loaded
    round_s: float = ROUND_TIMEOUT_S  # one answer of a role
    text_s: float = 2 * ROUND_TIMEOUT_S  # one answer of a text network, which may write a thousand words
    no_progress_s: float = 7200.0  # no block at all moved; above both, which ends single groups first


def run_stage(
    blocks: Sequence[tuple[int, Sequence[Item]]],
    roles: Roles,
    placement: Placement,
    put: Put,
    *,
    in_flight: int,
    limits: StageLimits = StageLimits(),
    timeline: Timeline | None = None,
) -> Iterator[list[LedgerRow]]:
    """The ledger row of every wanted item, in the order they finish; several at a time, never one twice.

    `timeline` is told what every device did.
    Raises RunError (or the subclass a worker reported) when the run cannot go on, and frees its actors first.
    """
    # What outlives groups must not go with one of their nodes.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    attempts = ray.remote(Attempts).options(num_cpus=0, scheduling_strategy=here).remote()
    wanted = {(item.key, item.sample) for _, items in blocks for item in items if item.wanted}
    metrics = RunMetrics(len(wanted))
    try:
        dataset = _dataset(blocks, here, roles, placement, put, attempts, in_flight, limits)
        for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            stored = read_rows(batch)
            if timeline is not None:
                _note(timeline, stored)
            new = [one for one in stored if (one.row.key, one.row.sample) in wanted]
            metrics.add(new)
            wanted.difference_update((one.row.key, one.row.sample) for one in new)
            yield [one.row for one in new]
    except (ray.exceptions.RayError, RuntimeError) as error:
        raise _as_ours(error, attempts, placement) from error
    finally:
        _end_workers(attempts)
        if placement.shape.spread:
            remove_all()
    if wanted:
        key, sample = min(wanted)
        raise RunError(
            f"{len(wanted)} images never came back, the first being sample {sample} of {key!r}; run again to make them"
        )


def _end_workers(attempts: Any) -> None:
    """Ray Data only lets go of its actors: after a run that ended early they have kept their devices for minutes."""
    with contextlib.suppress(ray.exceptions.RayError):
        for worker in ray.get(attempts.enrolled.remote(), timeout=10):
            ray.kill(worker)


def _note(timeline: Timeline, stored: Sequence[Stored]) -> None:
    for one in stored:
        if one.timing:
            timeline.add(one.timing)
        if one.put_s is not None:
            timeline.add_put(one.put_s)


def _dataset(
    blocks: Sequence[tuple[int, Sequence[Item]]],
    here: NodeAffinitySchedulingStrategy,
    roles: Roles,
    placement: Placement,
    put: Put,
    attempts: Any,
    in_flight: int,
    limits: StageLimits,
) -> Any:
    context = ray.data.DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = 1  # byte: every row travels by itself, and no row belongs to two micro-batches
    context.wait_for_min_actors_s = limits.start_s
    context.execution_no_progress_timeout_s = limits.no_progress_s
    shape = placement.shape
    with ray.data.DataContext.current(context):
        # Cut from a few tables as groups ask for blocks: an object, a task and metadata for each would fill the driver.
        dataset: Any = ray.data.from_arrow(block_tables(blocks)).map_batches(
            one_by_one,
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=0,
            label_selector={"ray.io/node-id": here.node_id},
            compute=ray.data.TaskPoolStrategy(size=1),
        )
        if roles.conditioner is not None:
            dataset = dataset.map_batches(
                TextStage,
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=shape.text_cpus,
                num_gpus=shape.text_gpus or None,
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=placement.max_text),
                fn_constructor_kwargs={
                    "make": roles.conditioner,
                    "device": shape.device,
                    "attempts": attempts,
                    "timeout_s": limits.text_s,
                },
            )
        return dataset.map_batches(
            Group,
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=CPUS_PER_SPREAD_GROUP if shape.spread else shape.num_cpus,
            num_gpus=None if shape.spread else shape.num_gpus or None,
            compute=ray.data.ActorPoolStrategy(
                min_size=placement.groups,
                max_size=placement.max_groups,
                max_concurrent_calls_per_actor=READ_AHEAD * in_flight * shape.targets,
            ),
            fn_constructor_kwargs={
                "roles": roles,
                "shape": shape,
                "attempts": attempts,
                "in_flight": in_flight,
                "round_timeout_s": limits.round_s,
                "start_s": limits.start_s,
            },
        ).map_batches(
            Writer,
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=CPUS_PER_WRITER,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=max(1, placement.max_groups // GROUPS_PER_WRITER)),
            fn_constructor_kwargs={"put": put, "attempts": attempts},
        )


def _as_ours(error: Exception, attempts: Any, placement: Placement) -> RunError:
    """What a worker reported before it died, else Ray's own words in one sentence."""
    try:
        fatal = ray.get(attempts.fatal.remote(), timeout=10)
    except ray.exceptions.RayError:
        fatal = None
    if fatal is not None:
        kind, sentence = fatal
        ours = getattr(mulo_ray.errors, kind, RunError)
        return ours(sentence) if issubclass(ours, RunError) else RunError(sentence)
    if isinstance(error, ray.exceptions.GetTimeoutError):
        return PlacementError(
            f"the workers did not start in time ({placement.sentence}): other jobs may hold the devices, "
            "or a model is slow to load"
        )
    last_line = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    return WorkerLostError(f"the workers stopped ({type(error).__name__}): {last_line}")

"""The part of a run that happens in Ray: how many groups of which shape, the stage itself, what its devices did.

Handed blocks and a `put`; knows no ledger, no output and no report file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from mulo_ray.config import GroupName, JobConfig
from mulo_ray.engine import Engine
from mulo_ray.errors import PlacementError
from mulo_ray.types import LedgerRow, Report
from mulo_ray.workers.auto import SHAPES, TRIAL_BLOCKS, WORTH_BLOCKS, Phases, choose
from mulo_ray.workers.placement import Placement, preflight
from mulo_ray.workers.roles import Item
from mulo_ray.workers.session import live_nodes, request_groups
from mulo_ray.workers.timeline import Timeline

if TYPE_CHECKING:  # it needs Ray, whose absence the session tells in a sentence
    from mulo_ray.workers.writer import Put

Blocks = Sequence[tuple[int, list[Item]]]
Say = Callable[[str], None]


def make_images(
    config: JobConfig, engine: Engine, put: Put, blocks: Blocks, report: Report, say: Say
) -> Iterator[list[LedgerRow]]:
    """Ledger rows as they come, in a Ray that is up; leaves in `report` the phase times and what the devices did."""
    if config.run.group == "auto":
        config, blocks = yield from _choose(config, engine, put, blocks, say)
    placement = place(config, engine, say)
    say(placement.sentence)
    for line in engine.memory_plan(config, placement.shape.device):
        say(line)
    timeline = Timeline()
    try:
        yield from _stage(config, engine, placement, put, blocks, timeline)
    finally:
        report.phases = timeline.phases() | {
            "batch_size": config.run.batch_size,
            "group": placement.shape.name,
            "groups": placement.groups,
            "in_flight": config.run.in_flight,
        }
        report.timeline = timeline.lanes()


def place(config: JobConfig, engine: Engine, say: Say) -> Placement:
    """How many groups start, and on what; PlacementError where too few fit."""
    return preflight(
        config.run,
        roles=engine.roles(config).per_group,
        role_bytes=engine.role_bytes(config),
        nodes=live_nodes,
        say=say,
        request=request_groups,
        text_bytes=engine.text_bytes(config),
    )


def with_shape(config: JobConfig, group: GroupName) -> JobConfig:
    """`config` with another --group."""
    return dataclasses.replace(config, run=dataclasses.replace(config.run, group=group))


def _stage(
    config: JobConfig, engine: Engine, placement: Placement, put: Put, blocks: Blocks, timeline: Timeline
) -> Iterator[list[LedgerRow]]:
    from mulo_ray.workers.stage import run_stage

    roles, in_flight = engine.roles(config), config.run.in_flight
    return run_stage(blocks, roles, placement, put, in_flight=in_flight, timeline=timeline)


def _choose(
    config: JobConfig, engine: Engine, put: Put, blocks: Blocks, say: Say
) -> Generator[list[LedgerRow], None, tuple[JobConfig, Blocks]]:
    """--group auto: make the first micro-batches in one process or one pair, then return the config with the shape
    that suits the phase times, and the blocks that are left."""
    if engine.roles(config).per_group == 1:
        return with_shape(config, "1:1"), blocks
    fitting = _fitting(config, engine, say)
    default: GroupName = "1:1" if "1:1" in fitting else next(iter(fitting))
    if len(blocks) < WORTH_BLOCKS:
        say(f"--group auto: {len(blocks)} micro-batches are too few to measure first; taking {default}")
        return with_shape(config, default), blocks
    timeline = Timeline()
    for name in [name for name in ("shared", "1:1") if name in fitting]:
        trial = with_shape(config, name)
        one = dataclasses.replace(fitting[name], groups=1, max_groups=1)
        say(f"--group auto: measuring on the first {TRIAL_BLOCKS} micro-batches")
        made = False
        try:
            for rows in _stage(trial, engine, one, put, blocks[:TRIAL_BLOCKS], timeline):
                made = True
                yield rows
            break
        except PlacementError as error:
            if made or name == "1:1" or "1:1" not in fitting:
                raise
            say(f"--group auto: no shared device ({error})")
            del fitting[name]
    told = timeline.phases()
    if told["drafter_s"] is None or told["target_s"] is None:
        say(f"--group auto: nothing could be measured; taking {default}")
        return with_shape(config, default), blocks[TRIAL_BLOCKS:]
    phases = Phases(drafter_s=told["drafter_s"], target_s=told["target_s"] + told["render_s"])
    chosen, sentence = choose(
        fitting, phases, batch_size=config.run.batch_size, in_flight=config.run.in_flight, nodes=live_nodes()
    )
    say(sentence)
    return with_shape(config, chosen), blocks[TRIAL_BLOCKS:]


def _fitting(config: JobConfig, engine: Engine, say: Say) -> dict[GroupName, Placement]:
    """The shapes that the cluster holds --min-groups of; waits for the smallest as --wait-for-gpus says."""
    fitting: dict[GroupName, Placement] = {SHAPES[0]: place(with_shape(config, SHAPES[0]), engine, say)}
    now = dataclasses.replace(config, run=dataclasses.replace(config.run, wait_for_gpus=0.0))
    for name in SHAPES[1:]:
        try:
            fitting[name] = place(with_shape(now, name), engine, say)
        except PlacementError:
            continue
    return fitting

"""One group: the Ray Data actor that owns the role actors (its crew) and keeps several micro-batches going among them.

Here rows fail, blocks are retried and lost crews end; how the roles are laid out is the crew's. Knows no torch, no file
format and no storage.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NoReturn

import pyarrow as pa
import ray
from ray.exceptions import RayActorError, RayTaskError

from mulo_ray.errors import PlacementError, PromptError, RunError
from mulo_ray.workers.attempts import BLOCK_LOSSES_BEFORE_SINGLE_ROWS, ROW_LOSSES_BEFORE_FAILURE, enrol_this_actor
from mulo_ray.workers.blocks import outcomes_table, read_block, read_conditions
from mulo_ray.workers.crew import MicroBatch, build_crew
from mulo_ray.workers.metrics import GroupMetrics
from mulo_ray.workers.reservation import reserve
from mulo_ray.workers.roles import Conditioned, Item, Outcome, Roles
from mulo_ray.workers.shapes import GroupShape
from mulo_ray.workers.turns import Turn, Turns

ROUND_TIMEOUT_S = 1800.0
"""A round that takes longer hangs. Generous: a round of plain decoding is a whole image, behind others in the queue."""
STARTS = 2
"""Tries at loading the roles: a process that died, or a file that could not be read, may fare better once more."""
PAUSE_S = 2.0
"""Between them: dead processes give their memory back."""
LOADING_KILLS = "a worker process died while it loaded its model, most often for lack of memory: try fewer --groups"


class Group:
    """The callable class that Ray Data runs: one block of items in, one row per wanted item out.

    A bad row is a failed row. The death or hang of a child ends this process: Ray starts a fresh group and gives it the
    same blocks. An error that would fail every row (RunError) is noted in `attempts` and ends the run.
    """

    def __init__(
        self,
        roles: Roles,
        shape: GroupShape,
        attempts: Any,
        in_flight: int,
        round_timeout_s: float = ROUND_TIMEOUT_S,
        start_s: float = 900.0,
    ) -> None:
        self._attempts = attempts
        enrol_this_actor(attempts)
        self._turns = Turns(in_flight * shape.targets)
        self._timeout_s = round_timeout_s
        self._metrics = GroupMetrics()
        try:
            self._reservation = reserve(shape, start_s)
        except PlacementError as error:
            ray.get(attempts.report_fatal.remote("PlacementError", str(error)))
            raise
        for left in reversed(range(STARTS)):
            try:
                self._crew = build_crew(roles, shape, self._reservation.places(), self._value)
                break
            except RayTaskError as error:
                if isinstance(error.cause, RunError) or not left:
                    ray.get(attempts.report_fatal.remote(*_described(error)))
                    raise
                print(f"loading again after: {_described(error)[1]}", file=sys.stderr, flush=True)
            except RayActorError as error:
                if not left:
                    ray.get(attempts.report_fatal.remote("WorkerLostError", LOADING_KILLS))
                    raise
                print(f"loading again, a worker process died: {error}", file=sys.stderr, flush=True)
            time.sleep(PAUSE_S)

    def __del__(self) -> None:
        """Ray Data drops its groups when a dataset ends well."""
        if hasattr(self, "_reservation"):
            self._reservation.release()

    async def __call__(self, batch: pa.Table) -> pa.Table:
        with self._metrics.held():
            return await self._answer(batch)

    async def _answer(self, batch: pa.Table) -> pa.Table:
        block, items = read_block(batch)
        conditions = read_conditions(batch)
        try:
            losses = await self._value(self._attempts.losses.remote(block))
            if losses < BLOCK_LOSSES_BEFORE_SINGLE_ROWS:
                await self._value(self._attempts.begin_block.remote(block))
                outcomes = await self._decode_rows(self._turns.together, items, conditions)
            else:
                async with self._turns.alone() as turn:
                    await self._value(self._attempts.begin_block.remote(block))
                    outcomes = [
                        await self._decode_suspect(turn, item, conditions and [conditions[index]], losses)
                        for index, item in enumerate(items)
                    ]
            await self._value(self._attempts.end_block.remote(block))
        except RayActorError as error:
            _die(f"a worker of this group died: {error}")
        except TimeoutError:
            _die(f"a worker of this group did not answer for {self._timeout_s:g} s")
        for item, outcome in zip(items, outcomes, strict=True):
            outcome.attempts = item.attempts + losses + 1
        return outcomes_table(items, outcomes)

    async def _decode_suspect(
        self, turn: Turn, item: Item, conditions: Sequence[Conditioned] | None, losses: int
    ) -> Outcome:
        """One row of a block that keeps killing its workers: alone, so that its guilt is certain."""
        if not await self._value(self._attempts.begin_row.remote(item.key, item.sample)):
            told = f"this row ended its worker process {ROW_LOSSES_BEFORE_FAILURE} times when it ran alone"
            reason = f"{told}, after its block was lost {losses} times"
            return Outcome(error=reason, transient=True)  # the machine may be to blame: a later run tries it again
        [outcome] = await self._decode_rows(lambda: nullcontext(turn), [item], conditions)
        await self._value(self._attempts.end_row.remote(item.key, item.sample))
        return outcome

    async def _decode_rows(
        self,
        take_turn: Callable[[], AbstractAsyncContextManager[Turn]],
        items: Sequence[Item],
        conditions: Sequence[Conditioned] | None,
    ) -> list[Outcome]:
        """The outcomes of `items`, in their order; when they cannot be decoded together, one by one.

        Prompts are read before there is a turn: the role that reads them may be busy for as long as one takes.
        """
        if conditions is None:
            checked = await self._crew.prompts_used([item.text for item in items])
            outcomes = [Outcome(prompt_used=used, error=error) for used, error in checked]
        else:
            outcomes = [Outcome(prompt_used=c.prompt_used, error=c.error, transient=c.transient) for c in conditions]
        usable = [index for index, outcome in enumerate(outcomes) if not outcome.error]
        trials = [usable] if usable else []
        while trials:
            trial = trials.pop(0)
            try:
                micro_batch = MicroBatch(
                    texts=[outcomes[index].prompt_used for index in trial],
                    seeds=[items[index].seed for index in trial],
                    prompts=[items[index].text for index in trial],
                    payloads=None if conditions is None else [conditions[index].payload for index in trial],
                )
                async with take_turn() as turn:
                    with self._metrics.decoding():
                        decoded = await self._crew.decode(turn, micro_batch)
            except RayTaskError as error:
                kind, sentence = _described(error)
                if isinstance(error.cause, RunError):
                    await self._value(self._attempts.report_fatal.remote(kind, sentence))
                    raise
                if len(trial) > 1:
                    trials = [[index] for index in trial]
                    continue
                outcome = outcomes[trial[0]]
                # A PromptError comes back for certain; another error may be the machine's: a later run tries again.
                outcome.error, outcome.transient = sentence, not isinstance(error.cause, PromptError)
                continue
            for index, (png, costs) in zip(trial, decoded.images, strict=True):
                outcomes[index].png, outcomes[index].stats = png, costs
            outcomes[trial[0]].timing = decoded.timing
        return outcomes

    async def _value(self, ref: Any) -> Any:
        async def value() -> Any:
            return await ref

        return await asyncio.wait_for(value(), self._timeout_s)


def _described(error: RayTaskError) -> tuple[str, str]:
    """(class name, sentence) of what a role raised: our errors are sentences, others are told by their class."""
    cause = error.cause if isinstance(error.cause, BaseException) else error
    kind = type(cause).__name__
    return kind, str(cause) if isinstance(cause, RunError | PromptError) else f"{kind}: {cause}"


def _die(reason: str) -> NoReturn:
    """End this process, children included: an exception would fail the job, and this group can never work again."""
    print(f"group ends: {reason}", file=sys.stderr, flush=True)
    os._exit(1)

"""The stage before the groups: the text network of a family that has one, in a pool of actors that scales by itself.

A block leaves as it came, with a payload per item: kilobytes, at most half a megabyte. Knows no image model and no
storage.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import ray

from mulo_ray.errors import PromptError, RunError
from mulo_ray.workers.attempts import BLOCK_LOSSES_BEFORE_SINGLE_ROWS, ROW_LOSSES_BEFORE_FAILURE, enrol_this_actor
from mulo_ray.workers.blocks import read_block, with_conditions
from mulo_ray.workers.roles import Conditioned, ConditionerRole, Item
from mulo_ray.workers.threads import limit_threads


class TextStage:
    """The callable class that Ray Data runs: one block in, the same block with its conditions out.

    A row that fails here is a failed row, told by the group. An error that would fail every row is noted in `attempts`
    and ends the run. When this process dies, or ends itself because the network hangs, Ray starts another and gives it
    the same block; from the second loss on its rows run one by one, and the one that kills twice alone fails.
    """

    def __init__(self, make: Callable[[str], ConditionerRole], device: str, attempts: Any, timeout_s: float) -> None:
        self._attempts = attempts
        enrol_this_actor(attempts)
        self._timeout_s = timeout_s
        limit_threads(device)
        try:
            self._role = make(device)
        except Exception as error:
            self._end_run(error)
            raise
        limit_threads(device)

    def __call__(self, batch: pa.Table) -> pa.Table:
        block, items = read_block(batch)
        mark = -1 - block  # the groups count the losses of the same block under its own number
        losses = ray.get(self._attempts.losses.remote(mark))
        ray.get(self._attempts.begin_block.remote(mark))
        if losses < BLOCK_LOSSES_BEFORE_SINGLE_ROWS:
            conditioned = self._condition(items)
        else:
            conditioned = [self._condition_suspect(item, losses) for item in items]
        ray.get(self._attempts.end_block.remote(mark))
        return with_conditions(batch, conditioned)

    def _condition_suspect(self, item: Item, losses: int) -> Conditioned:
        mark = item.key, -1 - item.sample
        if not ray.get(self._attempts.begin_row.remote(*mark)):
            told = f"this row ended its text stage {ROW_LOSSES_BEFORE_FAILURE} times when it ran alone"
            return Conditioned(error=f"{told}, after its block was lost {losses} times")
        [conditioned] = self._condition([item])
        ray.get(self._attempts.end_row.remote(*mark))
        return conditioned

    def _condition(self, items: Sequence[Item]) -> list[Conditioned]:
        """The conditions of `items`, in their order; when they cannot be made together, one by one."""
        conditioned = [self._read(item.text) for item in items]
        usable = [index for index, one in enumerate(conditioned) if not one.error]
        trials = [usable] if usable else []
        while trials:
            trial = trials.pop(0)
            texts, seeds = [conditioned[index].prompt_used for index in trial], [items[index].seed for index in trial]
            try:
                with self._not_for_ever():
                    payloads = self._role.encode(texts, seeds)
            except RunError as error:
                self._end_run(error)
                raise
            except Exception as error:
                if len(trial) > 1:
                    trials = [[index] for index in trial]
                    continue
                known = isinstance(error, PromptError)
                conditioned[trial[0]].error = str(error) if known else f"{type(error).__name__}: {error}"
                conditioned[trial[0]].transient = not known
                continue
            for index, payload in zip(trial, payloads, strict=True):
                conditioned[index].payload = payload
        return conditioned

    def _read(self, text: str) -> Conditioned:
        try:
            return Conditioned(prompt_used=self._role.prompt_used(text))
        except PromptError as error:
            return Conditioned(error=str(error))

    @contextlib.contextmanager
    def _not_for_ever(self) -> Iterator[None]:
        """What takes longer ends this process: a call that hangs cannot be stopped from outside."""
        alarm = threading.Timer(self._timeout_s, _die, [f"the text network did not answer for {self._timeout_s:g} s"])
        alarm.daemon = True
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()

    def _end_run(self, error: Exception) -> None:
        sentence = str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}"
        ray.get(self._attempts.report_fatal.remote(type(error).__name__, sentence))


def _die(reason: str) -> None:
    print(f"text stage ends: {reason}", file=sys.stderr, flush=True)
    os._exit(1)

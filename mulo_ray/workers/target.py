"""The target actor: a thin shell around one TargetRole that also turns its tokens into image files.

Knows no drafter: drafts arrive as values, whoever made them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mulo_ray.decoding.stats import ImageStats
from mulo_ray.errors import PromptError
from mulo_ray.workers.drafter import device_name, to_device, to_host
from mulo_ray.workers.role_clock import Lap, RoleClock
from mulo_ray.workers.roles import Payload, TargetRole
from mulo_ray.workers.threads import limit_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A finished micro-batch: (PNG, costs) of each image in the order of `begin`, and what it took in seconds."""

    images: list[tuple[bytes, ImageStats]]
    busy_s: float  # decoding on the target, rendering left out
    render_s: float
    laps: list[Lap]


class TargetActor:
    """One role, called by its group only; a slot names a micro-batch in flight. Calls run one at a time."""

    def __init__(self) -> None:
        self._clock = RoleClock()

    def build(self, make: Callable[[str], TargetRole], device: str, threads: int = 1) -> str:
        """Load the role; the device's name. Not in the constructor: so the group sees the exception itself and not a
        dead actor."""
        self._device = device
        limit_threads(device, threads)
        self._role = make(device)
        limit_threads(device, threads)
        return device_name(device)

    def prompts_used(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """(text the model sees, "") of each prompt, or ("", why it cannot be used)."""
        answers = []
        for text in texts:
            try:
                answers.append((self._role.prompt_used(text), ""))
            except PromptError as error:
                answers.append(("", str(error)))
        return answers

    def begin(
        self, slot: int, texts: Sequence[str], seeds: Sequence[int], payloads: Sequence[Payload] | None = None
    ) -> None:
        """`payloads` are those of the text stage, where the family has one."""
        role = self._role
        with self._clock.busy(slot):
            request = role.request(texts, seeds) if payloads is None else role.request_from(payloads, seeds)
            role.decoder.begin(slot, request)

    def advance(self, slot: int, draft: Any) -> tuple[Any, bool]:
        """(committed rows for the drafter, finished). Two values, so that the group can wait for the flag alone."""
        with self._clock.busy(slot):
            committed = to_host(self._role.decoder.advance(slot, to_device(draft, self._device)))
        return committed, committed is None

    def finish(self, slot: int, prompts: Sequence[str]) -> Made:
        """Free the slot, also when this fails, and make files of its tokens; `prompts` are the users' own words."""
        try:
            with self._clock.busy(slot):
                generation = self._role.decoder.finish(slot)
            busy_s = self._clock.close(slot)
            with self._clock.busy(slot):
                pngs = self._role.render(generation.tokens_BHW, prompts)
            render_s = self._clock.close(slot)
        except Exception:
            self.abandon(slot)
            raise
        for cost in generation.stats:
            cost.seconds |= {"target_busy": busy_s / len(pngs), "render": render_s / len(pngs)}
        images = list(zip(pngs, generation.stats, strict=True))
        return Made(images=images, busy_s=busy_s, render_s=render_s, laps=self._clock.laps())

    def abandon(self, slot: int) -> None:
        """Free a slot whose micro-batch failed half-way; whatever its decoder says to that no longer matters."""
        self._clock.close(slot)
        with contextlib.suppress(Exception):
            self._role.decoder.finish(slot)

"""Both roles of a group in one process on one device: they take turns there, and no draft travels.

Runs the very shells of the split layout, so the bytes are theirs. Knows no Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mulo_ray.workers.drafter import DrafterActor, Drafting
from mulo_ray.workers.roles import DrafterRole, Payload, TargetRole
from mulo_ray.workers.target import Made, TargetActor


class SharedActor:
    """A drafter and a target under one roof. Calls run one at a time, a whole micro-batch each."""

    def __init__(self) -> None:
        self._target, self._drafter = TargetActor(), DrafterActor()

    def build(
        self,
        make_target: Callable[[str], TargetRole],
        make_drafter: Callable[[str], DrafterRole],
        device: str,
        threads: int,
    ) -> str:
        """Load both roles; the device's name."""
        self._drafter.build(make_drafter, device, threads)
        return self._target.build(make_target, device, threads)

    def prompts_used(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """As `TargetActor.prompts_used`."""
        return self._target.prompts_used(texts)

    def decode(
        self,
        slot: int,
        texts: Sequence[str],
        seeds: Sequence[int],
        payloads: Sequence[Payload] | None,
        prompts: Sequence[str],
    ) -> tuple[Made, Drafting]:
        """One micro-batch from texts to files."""
        target, drafter = self._target, self._drafter
        try:
            target.begin(slot, texts, seeds, payloads)
            drafter.begin(slot, texts, seeds, payloads)
            committed: Any = None
            finished = False
            while not finished:
                committed, finished = target.advance(slot, drafter.draft(slot, committed))
            return target.finish(slot, prompts), drafter.finish(slot)
        except Exception:
            target.abandon(slot)
            drafter.abandon(slot)
            raise

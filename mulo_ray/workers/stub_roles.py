"""Roles that only take time: sleeps for forwards, bytes that follow from text and seed for pictures. Import no torch.

What they measure is everything around the models: actors, queues, placement, memory of the driver.
"""

import hashlib
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from mulo_ray.decoding.stats import ImageStats
from mulo_ray.workers.roles import Payload, Roles


class _StubRole:
    def __init__(self, phase_s: float, rounds: int) -> None:
        self.decoder: Any = self
        self._phase_s, self._rounds = phase_s, rounds
        self._slots: dict[int, Any] = {}

    def request(self, texts: Sequence[str], seeds: Sequence[int]) -> Any:
        return list(zip(texts, seeds, strict=True))

    def request_from(self, payloads: Sequence[Payload], seeds: Sequence[int]) -> Any:
        raise NotImplementedError("stub roles read prompts themselves")

    def begin(self, slot: int, request: Any) -> None:
        self._slots[slot] = SimpleNamespace(request=request, round=0)


class StubDrafter(_StubRole):
    """Takes `phase_s` seconds for a micro-batch, in `rounds` equal drafts."""

    def draft(self, slot: int, committed: Any) -> list[int]:
        time.sleep(self._phase_s / self._rounds)
        state = self._slots[slot]
        state.round += 1
        return [state.round] * len(state.request)

    def finish(self, slot: int) -> list[ImageStats]:
        state = self._slots.pop(slot)
        return [ImageStats(forwards_drafter=state.round) for _ in state.request]


class StubTarget(_StubRole):
    """Takes `phase_s` seconds for a micro-batch, in `rounds` equal verifications; pictures of `image_bytes` bytes."""

    def __init__(self, phase_s: float, rounds: int, image_bytes: int) -> None:
        super().__init__(phase_s, rounds)
        self._image_bytes = image_bytes

    def prompt_used(self, text: str) -> str:
        return text

    def advance(self, slot: int, draft: Any) -> Any:
        time.sleep(self._phase_s / self._rounds)
        state = self._slots[slot]
        state.round += 1
        if draft != [state.round] * len(state.request):
            raise ValueError(f"a draft of another round or micro-batch arrived: {draft} in round {state.round}")
        return None if state.round == self._rounds else [state.round]

    def finish(self, slot: int) -> Any:
        state = self._slots.pop(slot)
        stats = [ImageStats(forwards_target=state.round, cycles=state.round) for _ in state.request]
        return SimpleNamespace(tokens_BHW=state.request, stats=stats)

    def render(self, tokens_BHW: Any, prompts: Sequence[str]) -> list[bytes]:
        return [hashlib.shake_256(f"{text}|{seed}".encode()).digest(self._image_bytes) for text, seed in tokens_BHW]


class MakeStub:
    """Builds a stub role in its actor: "drafter" or "target"."""

    def __init__(self, role: str, phase_s: float, rounds: int, image_bytes: int) -> None:
        self._role, self._phase_s, self._rounds, self._image_bytes = role, phase_s, rounds, image_bytes

    def __call__(self, device: str) -> Any:
        if self._role == "drafter":
            return StubDrafter(self._phase_s, self._rounds)
        return StubTarget(self._phase_s, self._rounds, self._image_bytes)


def stub_roles(drafter_s: float, target_s: float, *, rounds: int = 1, image_bytes: int = 1000) -> Roles:
    """A drafter and a target that are busy so many seconds per micro-batch."""
    return Roles(
        target=MakeStub("target", target_s, rounds, image_bytes),
        drafter=MakeStub("drafter", drafter_s, rounds, image_bytes),
    )

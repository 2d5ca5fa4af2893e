"""The drafter actor: a thin shell around one DrafterRole. Knows no target, no batch order and no acceptance rule."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mulo_ray.workers.role_clock import Lap, RoleClock
from mulo_ray.workers.roles import DrafterRole, Payload
from mulo_ray.workers.threads import limit_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """What drafting one micro-batch cost: per image, in all, and what the drafter did since it was asked last."""

    costs: list[Any]
    busy_s: float
    laps: list[Lap]


class DrafterActor:
    """One role, called by its group only; a slot names a micro-batch in flight. Calls run one at a time."""

    def __init__(self) -> None:
        self._clock = RoleClock()

    def build(self, make: Callable[[str], DrafterRole], device: str, threads: int = 1) -> str:
        """Load the role; the device's name. Not in the constructor: so the group sees the exception itself and not a
        dead actor."""
        self._device = device
        limit_threads(device, threads)
        self._role = make(device)
        limit_threads(device, threads)
        return device_name(device)

    def begin(
        self, slot: int, texts: Sequence[str], seeds: Sequence[int], payloads: Sequence[Payload] | None = None
    ) -> None:
        """`payloads` are those of the text stage, where the family has one."""
        role = self._role
        with self._clock.busy(slot):
            request = role.request(texts, seeds) if payloads is None else role.request_from(payloads, seeds)
            role.decoder.begin(slot, request)

    def draft(self, slot: int, committed: Any) -> Any:
        """The next draft block of a slot, on the host."""
        with self._clock.busy(slot):
            return to_host(self._role.decoder.draft(slot, to_device(committed, self._device)))

    def finish(self, slot: int) -> Drafting:
        """Free the slot, also when this fails."""
        try:
            with self._clock.busy(slot):
                costs = list(self._role.decoder.finish(slot))
        except Exception:
            self.abandon(slot)
            raise
        busy_s = self._clock.close(slot)
        for cost in costs:
            cost.seconds["drafter_busy"] = busy_s / len(costs)
        return Drafting(costs=costs, busy_s=busy_s, laps=self._clock.laps())

    def abandon(self, slot: int) -> None:
        """Free a slot whose micro-batch failed half-way; whatever its decoder says to that no longer matters."""
        self._clock.close(slot)
        with contextlib.suppress(Exception):
            self._role.decoder.finish(slot)


def device_name(device: str) -> str:
    """Where this process computes, for people: "CPU of node-7", "GPU 3 of node-7"."""
    kind = f"GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '?')}" if device == "cuda" else device.upper()
    return f"{kind} of {platform.node()}"


def to_host(tokens: Any) -> Any:
    """Tensors leave a device before they travel: the other side may see the same device under another number."""
    return tokens.cpu() if hasattr(tokens, "cpu") else tokens


def to_device(tokens: Any, device: str) -> Any:
    return tokens.to(device) if hasattr(tokens, "cpu") else tokens

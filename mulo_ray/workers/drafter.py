"""The drafter actor: a thin shell around one DrafterRole. Knows no target, no batch order and no acceptance rule."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from mulo_ray.workers.roles import DrafterRole, Payload
from mulo_ray.workers.threads import one_thread


class DrafterActor:
    """One role, called by its group only; a slot names a micro-batch in flight. Calls run one at a time."""

    def __init__(self) -> None:
        self._busy_s: dict[int, float] = {}

    def build(self, make: Callable[[str], DrafterRole], device: str) -> None:
        """Load the role. Not in the constructor: so the group sees the exception itself and not a dead actor."""
        self._device = device
        one_thread(device)
        self._role = make(device)
        one_thread(device)

    def begin(
        self, slot: int, texts: Sequence[str], seeds: Sequence[int], payloads: Sequence[Payload] | None = None
    ) -> None:
        """`payloads` are those of the text stage, where the family has one."""
        started = time.perf_counter()
        role = self._role
        request = role.request(texts, seeds) if payloads is None else role.request_from(payloads, seeds)
        role.decoder.begin(slot, request)
        self._busy_s[slot] = time.perf_counter() - started

    def draft(self, slot: int, committed: Any) -> Any:
        """The next draft block of a slot, on the host."""
        started = time.perf_counter()
        block = to_host(self._role.decoder.draft(slot, to_device(committed, self._device)))
        self._busy_s[slot] += time.perf_counter() - started
        return block

    def finish(self, slot: int) -> list[Any]:
        """Free the slot: what drafting cost, per image."""
        started = time.perf_counter()
        costs = list(self._role.decoder.finish(slot))
        busy_s = self._busy_s.pop(slot) + time.perf_counter() - started
        for cost in costs:
            cost.seconds["drafter_busy"] = busy_s / len(costs)
        return costs

    def abandon(self, slot: int) -> None:
        """Free a slot whose micro-batch failed half-way; whatever its decoder says to that no longer matters."""
        self._busy_s.pop(slot, None)
        with contextlib.suppress(Exception):
            self._role.decoder.finish(slot)


def to_host(tokens: Any) -> Any:
    """Tensors leave a device before they travel: the other side may see the same device under another number."""
    return tokens.cpu() if hasattr(tokens, "cpu") else tokens


def to_device(tokens: Any, device: str) -> Any:
    return tokens.to(device) if hasattr(tokens, "cpu") else tokens

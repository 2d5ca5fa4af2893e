"""The target actor: a thin shell around one TargetRole that also turns its tokens into image files.

Knows no drafter: drafts arrive as values, whoever made them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from mulo_ray.errors import PromptError
from mulo_ray.workers.drafter import to_device, to_host
from mulo_ray.workers.roles import Payload, TargetRole
from mulo_ray.workers.threads import one_thread


class TargetActor:
    """One role, called by its group only; a slot names a micro-batch in flight. Calls run one at a time."""

    def __init__(self) -> None:
        self._busy_s: dict[int, float] = {}

    def build(self, make: Callable[[str], TargetRole], device: str) -> None:
        """Load the role. Not in the constructor: so the group sees the exception itself and not a dead actor."""
        self._device = device
        one_thread(device)
        self._role = make(device)
        one_thread(device)

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
        started = time.perf_counter()
        role = self._role
        request = role.request(texts, seeds) if payloads is None else role.request_from(payloads, seeds)
        role.decoder.begin(slot, request)
        self._busy_s[slot] = time.perf_counter() - started

    def advance(self, slot: int, draft: Any) -> tuple[Any, bool]:
        """(committed rows for the drafter, finished). Two values, so that the group can wait for the flag alone."""
        started = time.perf_counter()
        committed = to_host(self._role.decoder.advance(slot, to_device(draft, self._device)))
        self._busy_s[slot] += time.perf_counter() - started
        return committed, committed is None

    def finish(
        self, slot: int, prompts: Sequence[str], drafting: Sequence[Any] | None
    ) -> list[tuple[bytes, dict[str, Any]]]:
        """Free the slot: (PNG, costs) of each image, in the order of `begin`.

        `prompts` are the users' own words, `drafting` is what the drafter's `finish` said.
        """
        started = time.perf_counter()
        generation = self._role.decoder.finish(slot)
        decoded = time.perf_counter()
        pngs = self._role.render(generation.tokens_BHW, prompts)
        rendered = time.perf_counter()
        busy_s = self._busy_s.pop(slot) + decoded - started
        images = []
        for index, (png, cost) in enumerate(zip(pngs, generation.stats, strict=True)):
            if drafting is not None:
                cost.add(drafting[index])
            cost.seconds["target_busy"] = busy_s / len(pngs)
            cost.seconds["render"] = (rendered - decoded) / len(pngs)
            images.append((png, cost.as_dict()))
        return images

    def abandon(self, slot: int) -> None:
        """Free a slot whose micro-batch failed half-way; whatever its decoder says to that no longer matters."""
        self._busy_s.pop(slot, None)
        with contextlib.suppress(Exception):
            self._role.decoder.finish(slot)

"""The role actors of one group, by layout: a drafter and its targets on devices of their own, or both roles in one
process. Called by the group inside its own actor; knows no block, no attempt and no model.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ray

from mulo_ray.workers.drafter import DrafterActor, Drafting
from mulo_ray.workers.role_clock import Lap
from mulo_ray.workers.roles import Payload, Roles
from mulo_ray.workers.shapes import GroupShape
from mulo_ray.workers.shared import SharedActor
from mulo_ray.workers.target import Made, TargetActor
from mulo_ray.workers.turns import Turn

Wait = Callable[[Any], Awaitable[Any]]
"""From an object reference to its value, or TimeoutError; RayActorError when the actor is dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """What a crew decodes together; all sequences have one entry per image."""

    texts: Sequence[str]  # as the model sees them
    seeds: Sequence[int]
    prompts: Sequence[str]  # as the user wrote them
    payloads: Sequence[Payload] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """(PNG, costs) of each image, and the timing that `mulo_ray.workers.timeline` adds up."""

    images: list[tuple[bytes, dict[str, Any]]]
    timing: dict[str, Any]


class Crew(Protocol):
    """Actors that decode; all of them die with the group's own."""

    async def prompts_used(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """(text the model sees, "") of each prompt, or ("", why it cannot be used)."""

    async def decode(self, turn: Turn, batch: MicroBatch) -> Decoded:
        """One micro-batch from texts to files; gives the slot of `turn` back as early as it can. No role keeps
        anything of it, also when this raises the RayTaskError of one."""


def build_crew(roles: Roles, shape: GroupShape, places: Sequence[dict[str, Any]], wait: Wait) -> Crew:
    """Start and load the actors, one per entry of `places` (actor options). Raises what a role raised, as Ray wraps it,
    or RayActorError when a process died."""
    layout = SharedCrew if shape.shared else SplitCrew
    return layout(roles, shape, places, wait)


class SplitCrew:
    """At most one drafter, and one target or more; every role has an actor. Drafts go from actor to actor by
    reference: nothing but finished files and flags comes here."""

    def __init__(self, roles: Roles, shape: GroupShape, places: Sequence[dict[str, Any]], wait: Wait) -> None:
        self._wait = wait
        self._targets: list[Any] = [
            ray.remote(TargetActor).options(**place).remote() for place in places[: shape.targets]
        ]
        building = [target.build.remote(roles.target, shape.device, shape.threads) for target in self._targets]
        self._drafter: Any = None
        if roles.drafter is not None:
            self._drafter = ray.remote(DrafterActor).options(**places[shape.targets]).remote()
            building.append(self._drafter.build.remote(roles.drafter, shape.device, shape.threads))
        self._devices: list[str] = ray.get(building)
        self._live = [0] * len(self._targets)  # micro-batches that hold a slot, by target
        self._open = [0] * len(self._targets)  # those and the ones that finish

    async def prompts_used(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """Asks a target; all of them read alike."""
        least = self._targets[self._open.index(min(self._open))]
        answer: list[tuple[str, str]] = await self._wait(least.prompts_used.remote(texts))
        return answer

    async def decode(self, turn: Turn, batch: MicroBatch) -> Decoded:
        """The loop of `decoding.interfaces.generate` over two processes; the target with the least to do takes it.

        An actor runs our calls in the order they were sent. So the slot is free as soon as both roles were told to
        finish: whoever gets it next begins behind that, and the drafter goes on without waiting for the target.
        """
        number = min(range(len(self._targets)), key=lambda index: (self._live[index], self._open[index]))
        self._live[number] += 1
        self._open[number] += 1
        try:
            try:
                target, finishing = await self._rounds(number, turn.slot, batch)
            finally:
                self._live[number] -= 1
            await turn.free()
            made: Made = await self._wait(target)
            drafting: Drafting | None = None if finishing is None else await self._wait(finishing)
        finally:
            self._open[number] -= 1
        name = "target" if len(self._targets) == 1 else f"target {number + 1}"
        lanes = [_lane(name, self._devices[number], made.laps)]
        if drafting is not None:
            lanes.append(_lane("drafter", self._devices[-1], drafting.laps))
        return _decoded(made, drafting, lanes)

    async def _rounds(self, number: int, slot: int, batch: MicroBatch) -> tuple[Any, Any]:
        """All rounds; references to what the target's and the drafter's `finish` will say."""
        target, drafter = self._targets[number], self._drafter
        request = slot, batch.texts, batch.seeds, batch.payloads
        try:
            begun = [role.begin.remote(*request) for role in (target, drafter) if role is not None]
            committed, finished = None, False
            while not finished:
                draft = None if drafter is None else drafter.draft.remote(slot, committed)
                committed, finished_ref = target.advance.options(num_returns=2).remote(slot, draft)
                while begun:  # the first round is under way behind them
                    await self._wait(begun.pop(0))
                finished = await self._wait(finished_ref)
        except ray.exceptions.RayTaskError:
            for role in (target, drafter):
                if role is not None:
                    await self._wait(role.abandon.remote(slot))
            raise
        finishing = None if drafter is None else drafter.finish.remote(slot)
        return target.finish.remote(slot, batch.prompts), finishing


class SharedCrew:
    """Both roles in one actor, which decodes whole micro-batches one after the other."""

    def __init__(self, roles: Roles, shape: GroupShape, places: Sequence[dict[str, Any]], wait: Wait) -> None:
        assert roles.drafter is not None, "the layout was chosen for two roles"
        self._wait = wait
        self._device: str
        self._both: Any
        self._both = ray.remote(SharedActor).options(**places[0]).remote()
        loading = self._both.build.remote(roles.target, roles.drafter, shape.device, shape.threads)
        self._device = ray.get(loading)

    async def prompts_used(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        answer: list[tuple[str, str]] = await self._wait(self._both.prompts_used.remote(texts))
        return answer

    async def decode(self, turn: Turn, batch: MicroBatch) -> Decoded:
        ref = self._both.decode.remote(turn.slot, batch.texts, batch.seeds, batch.payloads, batch.prompts)
        made, drafting = await self._wait(ref)
        # Each role's clock saw the other one's turn as a wait; the device had none.
        laps = sorted((start, end, 0.0) for start, end, _ in made.laps + drafting.laps)
        return _decoded(made, drafting, [_lane("both roles", self._device, laps)])


def _lane(role: str, device: str, laps: Sequence[Lap]) -> dict[str, Any]:
    return {"role": role, "device": device, "laps": [[round(seconds, 4) for seconds in lap] for lap in laps]}


def _decoded(made: Made, drafting: Drafting | None, lanes: list[dict[str, Any]]) -> Decoded:
    seconds = {"target_s": made.busy_s, "render_s": made.render_s}
    if drafting is not None:
        seconds["drafter_s"] = drafting.busy_s
        for (_, cost), drafted in zip(made.images, drafting.costs, strict=True):
            cost.add(drafted)
    timing = {
        "group": ray.get_runtime_context().get_actor_id(),
        "finished": time.time(),
        "images": len(made.images),
        "lanes": lanes,
        "seconds": seconds,
    }
    return Decoded(images=[(png, cost.as_dict()) for png, cost in made.images], timing=timing)

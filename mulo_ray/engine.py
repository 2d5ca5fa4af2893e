"""What makes the images of a run: a family's card, and how a process builds its roles.

Kept apart from the job so that another engine (stub roles, later a remote one) takes its place by one argument. Imports
torch only where a role is built; knows no Ray, no output and no prompt file.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mulo_ray.config import PAIRS, JobConfig, ModelOptions
from mulo_ray.errors import CheckpointError
from mulo_ray.models.catalog import FamilyCard, check_weights, read_card
from mulo_ray.models.plan import LIBRARY_BYTES, Load, plan_lines, role_plans
from mulo_ray.workers.roles import ConditionerRole, DrafterRole, Roles, TargetRole

if TYPE_CHECKING:
    from mulo_ray.models.roles import RoleSpec

IMAGE_FORMAT = "png-1"
"""`mulo_ray.models.png.FORMAT`, which cannot be read without torch; a test keeps them equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """`roles` gets a resolved config; what it returns travels to the workers."""

    card: FamilyCard
    roles: Callable[[JobConfig], Roles]

    def pixel_fields(self) -> dict[str, Any]:
        """What the engine adds to the fields that decide image bytes."""
        return {"weights": self.card.weights_fingerprint, "image_format": IMAGE_FORMAT}

    def check(self, config: JobConfig) -> None:
        """Open the weights that a resolved config uses; CheckpointError, in seconds, when they cannot work."""
        sides = {config.model.drafter_px, config.model.target_px}
        check_weights(self.card, {px for px in sides if px is not None})

    def memory_plan(self, config: JobConfig, device: str) -> list[str]:
        """What the roles of a resolved config need on "cpu" or "cuda", a line each; none for a small family."""
        if self.card.memory is None:
            return []
        load = memory_load(config)
        return plan_lines(role_plans(self.card, load, device), load, device, None)

    def role_bytes(self, config: JobConfig) -> int:
        """Memory of the largest role of a resolved config on a CPU."""
        if self.card.memory is None:
            return self.card.role_bytes
        load = memory_load(config)
        plans = [plan for plan in role_plans(self.card, load, "cpu") if plan.kv]  # text stages are no roles
        return max(plan.total(load.batch, load.in_flight) for plan in plans)

    def text_bytes(self, config: JobConfig) -> int:
        """Memory of the text stage of a resolved config on a CPU; 0 where the family has none."""
        if not self.card.conditioner:
            return 0
        load = memory_load(config)
        names = self.card.memory.conditioners if self.card.memory else ()
        plans = role_plans(self.card, load, "cpu") if self.card.memory else []
        return LIBRARY_BYTES + sum(plan.total(load.batch, 1) - LIBRARY_BYTES for plan in plans if plan.name in names)


def family_engine(model: ModelOptions) -> Engine:
    """The engine of a family of mulo_ray.models. Raises UsageError or CheckpointError, in seconds."""
    card = read_card(model.family, model.weights)
    return Engine(card=card, roles=functools.partial(_family_roles, card.weights_fingerprint, card.conditioner))


def memory_load(config: JobConfig) -> Load:
    """A resolved config as a memory plan sees it."""
    assert config.model.target_px is not None, "the config is resolved"
    return Load(
        drafter_px=config.model.drafter_px,
        target_px=config.model.target_px,
        decoder=config.decoding.decoder,
        rows_per_cycle=config.decoding.rows_per_cycle or 0,
        guided=config.sampling.guidance != 1.0,
        batch=config.run.batch_size,
        in_flight=config.run.in_flight,
    )


def _family_roles(fingerprint: str, conditioner: bool, config: JobConfig) -> Roles:
    needs_drafter = config.decoding.decoder in PAIRS
    return Roles(
        target=functools.partial(build_target, config, fingerprint),
        drafter=functools.partial(build_drafter, config, fingerprint) if needs_drafter else None,
        conditioner=functools.partial(build_conditioner, config, fingerprint) if conditioner else None,
    )


def build_target(config: JobConfig, fingerprint: str, device: str) -> TargetRole:
    """Load the target in this process; "cpu" or "cuda". Its weights must be those of the driver's fingerprint."""
    from mulo_ray.models import roles

    _check_here(config, fingerprint, "target", device)
    return roles.build_target(_spec(config, device))


def build_drafter(config: JobConfig, fingerprint: str, device: str) -> DrafterRole:
    """Load the drafter in this process; "cpu" or "cuda". Its weights must be those of the driver's fingerprint."""
    from mulo_ray.models import roles

    _check_here(config, fingerprint, "drafter", device)
    return roles.build_drafter(_spec(config, device))


def build_conditioner(config: JobConfig, fingerprint: str, device: str) -> ConditionerRole:
    """Load the family's text network in this process; "cpu" or "cuda"."""
    from mulo_ray.models import roles

    _check_here(config, fingerprint, "text", device)
    return roles.build_conditioner(_spec(config, device))


def _check_here(config: JobConfig, fingerprint: str, role: str, device: str) -> None:
    """The weights this node has are the driver's, and there is room for them."""
    from mulo_ray.models.device_memory import refuse_what_cannot_fit

    card = read_card(config.model.family, config.model.weights)
    if card.weights_fingerprint != fingerprint:
        raise CheckpointError(
            f"the weights of {card.name} on this node ({card.folder}, {card.weights_fingerprint}) are not those on the "
            f"driver's ({fingerprint}): give all nodes the same files, or a URI"
        )
    names = [role] if role != "text" else list(card.memory.conditioners) if card.memory else []
    for name in names:
        load = memory_load(config)
        if name == "drafter":  # it serves the micro-batches of all targets of its group
            load = dataclasses.replace(load, in_flight=load.in_flight * config.run.targets)
        refuse_what_cannot_fit(card, name, load, device)


def _spec(config: JobConfig, device: str) -> "RoleSpec":
    from mulo_ray.models.roles import RoleSpec

    target_px = config.model.target_px
    assert target_px is not None, "the config is resolved before a role is built"
    return RoleSpec(
        family=config.model.family,
        weights=config.model.weights,
        drafter_px=config.model.drafter_px or target_px,  # a decoder without a drafter never looks at it
        target_px=target_px,
        sampling=config.sampling,
        decoding=config.decoding,
        batch_invariant=config.run.batch_invariant,
        device=device,
    )

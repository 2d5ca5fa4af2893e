"""What a role must offer to be put into an actor, and how an actor is handed one.

Imports no torch: a role that needs torch brings it. Knows no Ray, no device count and no model family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mulo_ray.decoding.interfaces import Drafter, Request, Target

Payload = Mapping[str, Any]
"""What a text network makes of one prompt: numpy arrays by name, a few kilobytes."""


class ConditionerRole(Protocol):
    """The text network of a family that has one: runs before the groups, on devices of its own."""

    def prompt_used(self, text: str) -> str:
        """The text the model really sees; raises PromptError when it cannot use this one."""

    def encode(self, texts: Sequence[str], seeds: Sequence[int]) -> Sequence[Payload]:
        """The payload of each text that `prompt_used` returned; PromptError when one cannot be used after all."""


class DrafterRole(Protocol):
    """The low-resolution half of a group."""

    decoder: Drafter

    def request(self, texts: Sequence[str], seeds: Sequence[int]) -> Request:
        """One micro-batch for `decoder`; texts are those of `TargetRole.prompt_used`, seeds those of `image_seed`."""

    def request_from(self, payloads: Sequence[Payload], seeds: Sequence[int]) -> Request:
        """The same from what a `ConditionerRole` made, where there is one."""


class TargetRole(Protocol):
    """The high-resolution half: verifies, and turns tokens into image files beside the model."""

    decoder: Target

    def request(self, texts: Sequence[str], seeds: Sequence[int]) -> Request:
        """One micro-batch for `decoder`, in the order of `texts`."""

    def request_from(self, payloads: Sequence[Payload], seeds: Sequence[int]) -> Request:
        """The same from what a `ConditionerRole` made, where there is one."""

    def prompt_used(self, text: str) -> str:
        """The text the model really sees; raises PromptError when it cannot use this one."""

    def render(self, tokens_BHW: Any, prompts: Sequence[str]) -> list[bytes]:
        """Finished tokens -> one complete PNG file per image, its prompt as the user wrote it inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What a group builds inside its actors: picklable callables that take "cpu" or "cuda"."""

    target: Callable[[str], TargetRole]
    drafter: Callable[[str], DrafterRole] | None = None  # None: the decoder needs no drafter
    conditioner: Callable[[str], ConditionerRole] | None = None  # None: the roles read prompts themselves

    @property
    def per_group(self) -> int:
        """Role actors, and so devices, of one group."""
        return 1 if self.drafter is None else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One image to make; (`key`, `sample`) is its identity, never its position."""

    key: str
    sample: int
    text: str
    seed: int
    attempts: int = 0  # tries of earlier runs, from the ledger
    wanted: bool = True  # False: decoded only to keep its block's composition, never stored


@dataclass(slots=True, kw_only=True)
class Conditioned:
    """What the text stage says about one item: a payload, or the reason why there is none."""

    prompt_used: str = ""
    error: str = ""
    transient: bool = False
    payload: Payload = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a group says about one item: a PNG, or the reason why there is none."""

    png: bytes = b""
    prompt_used: str = ""
    error: str = ""
    transient: bool = False
    attempts: int = 1
    stats: dict[str, Any] = field(default_factory=dict)
    timing: dict[str, Any] = field(default_factory=dict)  # of its micro-batch, carried by the first image of it

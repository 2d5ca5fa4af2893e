"""What a family of models offers to the roles, and how one is built from its card. Knows no Ray and no decoder."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition, DraftHead, FeatureScale, Resampler
from mulo_ray.models.catalog import FamilyCard

Payload = Mapping[str, NDArray[Any]]
"""What a conditioner makes of one prompt: small arrays by name, which travel to the roles. Opaque to all between."""


class Conditioner(Protocol):
    """The text network of a family, where it has one: a stage of its own, on a device of its own."""

    def encode(self, texts: Sequence[str], seeds: Sequence[int]) -> list[dict[str, NDArray[Any]]]:
        """Payloads of texts that `prompt_used` returned, in their order; each depends on its text and seed alone.

        Raises PromptError when a text cannot be used after all.
        """


class Family(Protocol):
    """A ladder of scales that share one tokenizer, one conditioner and one codebook."""

    codebook_VD: Tensor

    def scale(self, px: int, *, batch_invariant: bool, side: int | None = None) -> FeatureScale:
        """The model of one image size, loaded on first use; `side` lays its weights over another grid."""

    def head(self, px: int, scale: FeatureScale, *, batch_invariant: bool) -> DraftHead:
        """The EAGLE head of a scale that `scale` returned, where the card lists one."""

    def prompt_used(self, text: str) -> str:
        """The text the models will see; PromptError when nothing of it is readable."""

    def conditioner(self, device: str) -> Conditioner | None:
        """The text network, loaded on `device`; None for a family that needs none (`FamilyCard.conditioner`)."""

    def condition_from(self, payloads: Sequence[Payload]) -> Condition:
        """What the conditioner made, as a condition. Only for families that have one."""

    def condition(self, texts_used: Sequence[str]) -> Condition:
        """Encode prompts that `prompt_used` returned, where the family has no conditioner."""

    def resampler(self, name: str, ratio: int) -> Resampler:
        """The up- and down-sampler of that name."""

    def pixels(self, tokens_BHW: Tensor) -> Tensor:
        """Tokens -> uint8 (B, 8H, 8W, 3) on the CPU, one image at a time."""


def load_family(card: FamilyCard, device: str) -> Family:
    """Build the family a card describes; CheckpointError when its weights do not fit."""
    module, name = card.loader.split(":")
    family: Family = getattr(importlib.import_module(module), name)(card, device)
    return family

"""Builds the two roles of a job from plain options: the family, its scales and the decoder chosen. Knows no Ray.

workers/ and the in-process path call this inside the process that owns the device.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from mulo_ray.config import DecoderOptions, SamplingOptions
from mulo_ray.decoding.autoregressive import AutoregressiveTarget, ZipARTarget
from mulo_ray.decoding.exact import ExactOptions, ExactTarget
from mulo_ray.decoding.interfaces import Drafter, FeatureScale, Request, Target
from mulo_ray.decoding.mulo import MuloDrafter, MuloOptions, MuloTarget
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.speculative import SpeculativeTarget
from mulo_ray.decoding.tree_drafts import TreeOptions
from mulo_ray.decoding.tree_walk import Relaxation
from mulo_ray.decoding.trees import TreeTarget
from mulo_ray.decoding.verification import neighbour_table
from mulo_ray.errors import CheckpointError, PromptError
from mulo_ray.models.catalog import read_card
from mulo_ray.models.family import Conditioner, Family, Payload, load_family
from mulo_ray.models.png import encode_png


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """Everything a process needs to build a role; every option resolved, no None left. Pickles small."""

    family: str
    weights: str | None
    drafter_px: int
    target_px: int
    sampling: SamplingOptions
    decoding: DecoderOptions
    batch_invariant: bool
    device: str

    @property
    def ratio(self) -> int:
        return self.target_px // self.drafter_px


_T = TypeVar("_T")


class _Role:
    def __init__(self, spec: RoleSpec) -> None:
        self._spec = spec
        self._card = read_card(spec.family, spec.weights)
        self._family: Family = load_family(self._card, spec.device)

    def request(self, texts_used: Sequence[str], seeds: Sequence[int]) -> Request:
        """Texts that `prompt_used` returned, and one seed per image -> a request of B images.

        A family's conditioner is loaded in this process: where a stage before it has one, see `request_from`.
        """
        if self._card.conditioner:
            return self.request_from(self._conditioner.encode(texts_used, seeds), seeds)
        return Request(condition=self._family.condition(texts_used), seeds_B=torch.tensor(seeds, dtype=torch.int64))

    def request_from(self, payloads: Sequence[Payload], seeds: Sequence[int]) -> Request:
        """What the family's conditioner made of B prompts -> a request of B images."""
        condition = self._family.condition_from(payloads)
        return Request(condition=condition, seeds_B=torch.tensor(seeds, dtype=torch.int64))

    @functools.cached_property
    def _conditioner(self) -> Conditioner:
        found = self._family.conditioner(self._spec.device)
        assert found is not None, "the card promises a conditioner"
        return found


class DrafterRole(_Role):
    """The low scale and its decoder."""

    def __init__(self, spec: RoleSpec) -> None:
        super().__init__(spec)
        scale = _scale(spec, self._family, spec.drafter_px)
        rows = _rows_per_cycle(spec, scale.side)
        self.decoder: Drafter = MuloDrafter(
            scale, _sampling(spec), rows_per_cycle=rows, window=_set(spec.decoding.zipar_window)
        )


class TargetRole(_Role):
    """The high scale, its decoder, and the way from tokens to PNG bytes."""

    def __init__(self, spec: RoleSpec) -> None:
        super().__init__(spec)
        scale = _scale(spec, self._family, spec.target_px)
        self._side = scale.side
        self.decoder: Target = _TARGETS[spec.decoding.decoder](spec, self._family, scale)

    def prompt_used(self, text: str) -> str:
        """What the models will see of a prompt; PromptError when that is nothing."""
        return self._family.prompt_used(text)

    def render(self, tokens_BHW: Tensor, prompts: Sequence[str] | None = None) -> list[bytes]:
        """PNG bytes of each image, with its prompt inside when given; PromptError when a grid is no picture."""
        check_grids(tokens_BHW, self._side, len(self._family.codebook_VD))
        pixels = self._family.pixels(tokens_BHW)
        return [encode_png(image, prompt) for image, prompt in zip(pixels, prompts or [""] * len(pixels), strict=True)]


class ConditionerRole:
    """A family's text network, and what it makes of a prompt before that."""

    def __init__(self, spec: RoleSpec) -> None:
        family = load_family(read_card(spec.family, spec.weights), spec.device)
        found = family.conditioner(spec.device)
        assert found is not None, "only a family that has one is asked for its conditioner"
        self._family, self._conditioner = family, found

    def prompt_used(self, text: str) -> str:
        """What the models will see of a prompt; PromptError when that is nothing."""
        return self._family.prompt_used(text)

    def encode(self, texts_used: Sequence[str], seeds: Sequence[int]) -> Sequence[Payload]:
        """See `models.family.Conditioner.encode`."""
        return self._conditioner.encode(texts_used, seeds)


def build_conditioner(spec: RoleSpec) -> ConditionerRole:
    """The text network of a family that has one; CheckpointError when its weights are missing or do not fit."""
    return ConditionerRole(spec)


def build_drafter(spec: RoleSpec) -> DrafterRole:
    """The drafter of a pair; CheckpointError when its weights are missing or do not fit."""
    return DrafterRole(spec)


def build_target(spec: RoleSpec) -> TargetRole:
    """The target of a pair, or the only role of a decoder that needs no drafter."""
    return TargetRole(spec)


def check_grids(tokens_BHW: Tensor, side: int, codes: int) -> None:
    """Refuse grids that are no picture, before anything is written: never padded, never cut (docs/reports.md A8)."""
    count = tokens_BHW[0].numel()
    if count != side**2:
        raise PromptError(f"expected {side**2} tokens, got {count}: the decoder ended early or late")
    low, high = int(tokens_BHW.min()), int(tokens_BHW.max())
    if low < 0 or high >= codes:
        raise PromptError(f"expected tokens from 0 to {codes - 1}, got {low if low < 0 else high}")


def _scale(spec: RoleSpec, family: Family, px: int, side: int | None = None) -> FeatureScale:
    """A scale whose codes are those of the family's tokenizer (reports A7)."""
    scale = family.scale(px, batch_invariant=spec.batch_invariant, side=side)
    if scale.codebook_size != len(family.codebook_VD):
        raise CheckpointError(
            f"the {px} px scale of {spec.family} draws from {scale.codebook_size} codes, its tokenizer has "
            f"{len(family.codebook_VD)}: they are no pair"
        )
    return scale


def _mulo(spec: RoleSpec, family: Family, scale: FeatureScale) -> Target:
    options = spec.decoding
    return MuloTarget(
        scale,
        _sampling(spec),
        family.resampler(_set(options.upsampler), spec.ratio),
        MuloOptions(
            tau=_set(options.tau),
            neighbours_VK=neighbour_table(family.codebook_VD, _set(options.neighbours)),
            radius=_set(options.radius),
            redraw=_set(options.redraw),
            rows_per_cycle=_rows_per_cycle(spec, scale.side // spec.ratio),
            window=_set(options.zipar_window),
            refresh_cache=_set(options.refresh_cache),
        ),
    )


def _exact(spec: RoleSpec, family: Family, scale: FeatureScale) -> Target:
    return ExactTarget(
        scale,
        _sampling(spec),
        family.resampler(_set(spec.decoding.upsampler), spec.ratio),
        ExactOptions(
            rows_per_cycle=_rows_per_cycle(spec, scale.side // spec.ratio),
            verify_window=_set(spec.decoding.verify_window),
        ),
    )


def _ar(spec: RoleSpec, family: Family, scale: FeatureScale) -> Target:
    return AutoregressiveTarget(scale, _sampling(spec))


def _zipar(spec: RoleSpec, family: Family, scale: FeatureScale) -> Target:
    return ZipARTarget(scale, _sampling(spec), _set(spec.decoding.zipar_window))


def _speculative(spec: RoleSpec, family: Family, scale: FeatureScale) -> Target:
    """The drafter's weights are laid over the target's grid, in the target's process."""
    drafter = _scale(spec, family, spec.drafter_px, scale.side)
    return SpeculativeTarget(scale, drafter, _sampling(spec), chain=_set(spec.decoding.chain))


def _trees(spec: RoleSpec, family: Family, scale: FeatureScale) -> Target:
    options = spec.decoding
    shape = TreeOptions(
        depth=_set(options.tree_depth),
        top_k=_set(options.tree_top_k),
        nodes=_set(options.tree_nodes),
        static=_set(options.tree) == "static",
    )
    relaxation = None
    if options.decoder == "lantern":
        table_VK = neighbour_table(family.codebook_VD, _set(options.lantern_k))
        relaxation = Relaxation(
            neighbours_VK=table_VK, delta=options.lantern_delta or 0.0, factor=options.lantern_lambda
        )
    head = family.head(spec.target_px, scale, batch_invariant=spec.batch_invariant)
    return TreeTarget(scale, head, _sampling(spec), shape, relaxation)


_TARGETS: dict[str, Callable[[RoleSpec, Family, FeatureScale], Target]] = {
    "mulo": _mulo,
    "exact": _exact,
    "ar": _ar,
    "zipar": _zipar,
    "speculative": _speculative,
    "eagle2": _trees,
    "lantern": _trees,
}


def _sampling(spec: RoleSpec) -> Sampling:
    options = spec.sampling
    return Sampling(
        guidance=_set(options.guidance),
        temperature=_set(options.temperature),
        top_k=_set(options.top_k),
        top_p=_set(options.top_p),
    )


def _rows_per_cycle(spec: RoleSpec, drafter_side: int) -> int:
    """0 is the whole drafter grid."""
    return _set(spec.decoding.rows_per_cycle) or drafter_side


def _set(value: _T | None) -> _T:
    assert value is not None, "a role was built from options that were not resolved"
    return value

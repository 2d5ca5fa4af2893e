"""Fills what a JobConfig leaves open from the family's card, and refuses combinations that cannot work.

Runs before anything starts; knows no torch, no Ray and no file.
"""

import dataclasses
from typing import Any

from mulo_ray.config import PAIRS, JobConfig
from mulo_ray.errors import UsageError
from mulo_ray.models.catalog import FamilyCard

DECODER_FIELDS = (
    "tau",
    "neighbours",
    "radius",
    "redraw",
    "rows_per_cycle",
    "zipar_window",
    "upsampler",
    "refresh_cache",
    "verify_window",
    "chain",
    "tree",
    "tree_depth",
    "tree_top_k",
    "tree_nodes",
    "lantern_k",
    "lantern_delta",
    "lantern_lambda",
)
NEUTRAL_SAMPLING = {"guidance": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""What a family that names no value gets: the model's own distribution."""
_TREE = frozenset({"tree", "tree_depth", "tree_top_k", "tree_nodes"})
USED_BY = {
    "ar": frozenset[str](),
    "zipar": frozenset({"zipar_window"}),
    "mulo": frozenset(DECODER_FIELDS[: DECODER_FIELDS.index("verify_window")]),
    "exact": frozenset({"rows_per_cycle", "zipar_window", "upsampler", "verify_window"}),
    "speculative": frozenset({"chain"}),
    "eagle2": _TREE,
    "lantern": _TREE | {"lantern_k", "lantern_delta", "lantern_lambda"},
}
GENERAL: dict[str, Any] = {
    "verify_window": 16,
    "chain": 4,
    "tree": "dynamic",
    "tree_depth": 5,
    "tree_top_k": 8,
    "tree_nodes": 60,
    "lantern_k": 1000,
    "lantern_delta": 0.4,
}
"""What a family gets that names no value: the published settings of the rivals, a window measured in docs/log.md."""


def resolve(config: JobConfig, card: FamilyCard) -> JobConfig:
    """`config` with every option that matters set, and those its decoder ignores None.

    Raises UsageError naming the option, its value and what is allowed.
    """
    decoder = config.decoding.decoder
    if decoder not in PAIRS and config.run.group not in ("1:1", "auto"):
        raise UsageError(
            f"--group {config.run.group} needs a drafter of its own, which --decoder {decoder} has not; leave it out"
        )
    drafter_px, target_px = _sides(config, card)
    for name in DECODER_FIELDS:
        if getattr(config.decoding, name) is not None and name not in USED_BY[decoder]:
            raise UsageError(f"--{name.replace('_', '-')} has no effect on --decoder {decoder}; leave it out")
    defaults = card.defaults_for(drafter_px or card.default_pair[0], target_px)
    settings: dict[str, Any] = {
        name: defaults.get(name, GENERAL.get(name))
        if getattr(config.decoding, name) is None
        else getattr(config.decoding, name)
        for name in USED_BY[decoder]
    }
    if settings.get("lantern_lambda") is not None:  # LANTERN++: the other bound, and its own tree
        settings["lantern_delta"] = None
        settings["tree"] = config.decoding.tree or "static"
    sampling: dict[str, Any] = {
        name: defaults.get(name, neutral) if getattr(config.sampling, name) is None else getattr(config.sampling, name)
        for name, neutral in NEUTRAL_SAMPLING.items()
    }
    resolved = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, family=card.name, drafter_px=drafter_px, target_px=target_px),
        sampling=dataclasses.replace(config.sampling, **sampling),
        decoding=dataclasses.replace(config.decoding, **settings),
    )
    _check_cells(resolved, card)
    _check_head(decoder, target_px, card)
    _check_upsampler(resolved, card)
    return resolved


def _sides(config: JobConfig, card: FamilyCard) -> tuple[int | None, int]:
    """Pixels of (drafter, target); no drafter where the decoder has none."""
    default_drafter, default_target = card.default_pair
    target_px = config.model.target_px or default_target
    sides = ", ".join(str(px) for px in sorted(card.scales))
    if target_px not in card.scales:
        raise UsageError(f"--target-px must be one of {sides} for family {card.name}, got {target_px}")
    if config.decoding.decoder == "speculative":
        return _chain_drafter(config, card, target_px), target_px
    if config.decoding.decoder not in PAIRS:
        if config.model.drafter_px is not None:
            raise UsageError(f"--drafter-px has no effect on --decoder {config.decoding.decoder}; leave it out")
        return None, target_px
    drafter_px = config.model.drafter_px or (
        default_drafter if config.model.target_px is None else _below(target_px, card)
    )
    if drafter_px not in card.scales:
        raise UsageError(f"--drafter-px must be one of {sides} for family {card.name}, got {drafter_px}")
    if target_px <= drafter_px or target_px % drafter_px or card.scales[target_px] % card.scales[drafter_px]:
        raise UsageError(
            f"--target-px must be a whole multiple, 2 or more, of --drafter-px, got {target_px} and {drafter_px}; "
            f"family {card.name} has {sides}; --decoder ar needs no drafter"
        )
    return drafter_px, target_px


def _below(target_px: int, card: FamilyCard) -> int:
    """The default drafter of a target that was named alone: the family's own if it fits, else the largest that does."""
    fitting = [px for px in card.scales if px < target_px and target_px % px == 0]
    if not fitting:
        sides = ", ".join(str(px) for px in sorted(card.scales))
        raise UsageError(
            f"no drafter of family {card.name} ({sides} px) is smaller than --target-px {target_px}; use --decoder ar"
        )
    return card.default_pair[0] if card.default_pair[0] in fitting else max(fitting)


def _chain_drafter(config: JobConfig, card: FamilyCard, target_px: int) -> int:
    """Any scale may draft on the target's grid; the default is the one just below the target, else above it."""
    sides = ", ".join(str(px) for px in sorted(card.scales))
    if card.fixed_grids and config.model.drafter_px != target_px:
        raise UsageError(
            f"--decoder speculative lays the drafter over the target's grid, and scales of family {card.name} know "
            "their own grid only; use --decoder mulo or exact"
        )
    if config.model.drafter_px is not None:
        if config.model.drafter_px not in card.scales:
            raise UsageError(
                f"--drafter-px must be one of {sides} for family {card.name}, got {config.model.drafter_px}"
            )
        return config.model.drafter_px
    others = [px for px in card.scales if px != target_px]
    if not others:
        raise UsageError(
            f"family {card.name} has one scale ({sides} px), which cannot speed itself up; use --decoder ar"
        )
    return max((px for px in others if px < target_px), default=min(others))


def _check_head(decoder: str, target_px: int, card: FamilyCard) -> None:
    """Trees grow from a head that was trained for the target."""
    if "tree" in USED_BY[decoder] and target_px not in card.heads:
        there = ", ".join(f"{px} px" for px in sorted(card.heads)) or "none"
        raise UsageError(
            f"--decoder {decoder} needs an EAGLE head, and family {card.name} ships none for {target_px} px (heads: "
            f"{there}); train one with jobs/train.py eagle, or use another decoder"
        )


def _check_cells(config: JobConfig, card: FamilyCard) -> None:
    """Options counted in cells against the grids they apply to."""
    assert config.model.target_px is not None, "sides are resolved first"
    target_side = card.scales[config.model.target_px]
    decoding = config.decoding
    if decoding.zipar_window is not None and decoding.zipar_window > target_side:
        raise UsageError(
            f"--zipar-window must be at most the target's {target_side} cells per row, got {decoding.zipar_window}"
        )
    if decoding.radius is not None and decoding.radius > target_side:
        raise UsageError(f"--radius must be at most the target's {target_side} cells per row, got {decoding.radius}")
    if decoding.rows_per_cycle and config.model.drafter_px is not None:
        side = card.scales[config.model.drafter_px]
        if side % decoding.rows_per_cycle:
            divisors = ", ".join(str(n) for n in range(1, side + 1) if side % n == 0)
            raise UsageError(
                f"--rows-per-cycle must divide the drafter's {side} rows ({divisors}) or be 0, the whole image, "
                f"got {decoding.rows_per_cycle}"
            )


def _check_upsampler(config: JobConfig, card: FamilyCard) -> None:
    """Learned samplers exist for some ratios only."""
    if config.decoding.upsampler != "latent" or config.model.drafter_px is None or config.model.target_px is None:
        return
    ratio = config.model.target_px // config.model.drafter_px
    if ratio not in card.learned_ratios:
        known = ", ".join(str(r) for r in card.learned_ratios) or "none"
        raise UsageError(
            f"--upsampler latent needs trained samplers of ratio {ratio}; family {card.name} has {known}: "
            "use --upsampler pixel, or train them (jobs/train.py rescaler)"
        )

"""The memory plan of a pair before anything is loaded: weights, caches per image, the largest batch that fits.

    python -m mulo_ray.models.plan --family llamagen-t2i-xl --target-px 512 --gpu-memory 24GiB

Arithmetic on a family's configuration; knows no torch and opens no file. Estimates err on the large side.
"""

import argparse
import re
import sys
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mulo_ray.config import PAIRS, DecoderName
from mulo_ray.errors import MuloError, UsageError
from mulo_ray.models.catalog import RANDOM, FamilyCard, read_card
from mulo_ray.models.memory import ScaleMemory
from mulo_ray.types import ExitCode

GIB = 2**30
LIBRARY_BYTES = GIB
"""The driver's context on a GPU, torch and its workspaces."""
DECODERS: tuple[str, ...] = typing.get_args(DecoderName)
_TWO_SCALES = PAIRS | {"speculative"}
_TREE_NODES = 256
"""Cells of an image that a draft tree looks at in one forward, at the most that anyone asks for."""
_NUMBER_BYTES = {"cuda": 2, "cpu": 4}
_PRECISION = {"cuda": "bfloat16", "cpu": "float32"}  # as mulo_ray.models.dtypes has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to run: sides in pixels, how the target decodes, how many images at once."""

    drafter_px: int | None  # None: the decoder needs no second scale
    target_px: int
    decoder: str = "mulo"
    rows_per_cycle: int = 0  # drafter rows; 0 is all
    guided: bool = True
    batch: int = 8
    in_flight: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePlan:
    """Memory of one role on its device, in bytes; `kv` and `work` are per image."""

    name: str
    weights: int
    kv: int = 0  # keys and values, held by every image of every micro-batch in flight
    work: int = 0  # of one forward, held by the images of one micro-batch
    fixed: int = LIBRARY_BYTES

    def total(self, batch: int, in_flight: int) -> int:
        """What the role needs for micro-batches of `batch` images, `in_flight` of them at once."""
        return self.fixed + self.weights + batch * (in_flight * self.kv + self.work)

    def largest_batch(self, memory: int, in_flight: int) -> int:
        """Images per micro-batch that fit into `memory` bytes; 0 when not even one does."""
        left = memory - self.fixed - self.weights
        per_image = in_flight * self.kv + self.work
        return max(0, left // per_image) if per_image else int(left >= 0)


def role_plans(card: FamilyCard, load: Load, device: str) -> list[RolePlan]:
    """The roles of `load` on "cpu" or "cuda": drafter, target and text stages.

    Raises UsageError for a family whose card holds no sizes.
    """
    memory = card.memory
    if memory is None:
        raise UsageError(f"family {card.name} is small and needs no memory plan")
    number, target = _NUMBER_BYTES[device], memory.scales[load.target_px]
    queries = {"ar": 1, "eagle2": _TREE_NODES, "lantern": _TREE_NODES}.get(load.decoder, target.side)
    tokenizer = 4 * memory.tokenizer_parameters + memory.tokenizer_work_bytes(load.target_px)
    plans = []
    drafter = None if load.drafter_px is None else memory.scales[load.drafter_px]
    if drafter is not None and load.decoder in PAIRS:
        queries = target.side * (load.rows_per_cycle or drafter.side) * (target.side // drafter.side)
        plans.append(_role("drafter", drafter, drafter.side, number, load.guided))
    plan = _role("target", target, queries, number, load.guided, tokenizer)
    if drafter is not None and load.decoder == "speculative":  # the small scale, laid over the target's grid
        inside = _role("", replace(drafter, side=target.side), queries, number, load.guided)
        plan = replace(plan, weights=plan.weights + inside.weights, kv=plan.kv + inside.kv)
    elif load.decoder in ("eagle2", "lantern"):  # a draft head: one layer of the target's width with its own keys
        layer = replace(target, parameters=14 * target.dim**2, layers=1)
        inside = _role("", layer, queries, number, load.guided)
        plan = replace(plan, weights=plan.weights + inside.weights, kv=plan.kv + inside.kv)
    plans.append(plan)
    for name, parameters in memory.conditioners.items():
        kept = memory.conditioner_numbers.get(name, 0) * number
        plans.append(RolePlan(name=name, weights=parameters * number, fixed=LIBRARY_BYTES + kept))
    return plans


def _role(name: str, scale: ScaleMemory, queries: int, number: int, guided: bool, tokenizer: int = 0) -> RolePlan:
    return RolePlan(
        name=name,
        weights=scale.parameters * number,
        kv=scale.kv_bytes(number, guided),
        work=scale.work_bytes(queries, number, guided),
        fixed=LIBRARY_BYTES + tokenizer,
    )


def plan_lines(plans: Sequence[RolePlan], load: Load, device: str, memory: int | None) -> list[str]:
    """The plan in words, a line per role; with `memory` bytes per device also the largest batch that fits."""
    batch, in_flight = load.batch, load.in_flight
    lines = [f"memory plan for micro-batches of {batch}, {in_flight} in flight, networks in {_PRECISION[device]}:"]
    for plan in plans:
        line = f"  {plan.name}: weights {_gib(plan.weights)}"
        if plan.kv:
            line += f", keys and values {plan.kv / 1e9:.2f} GB per image, work {_gib(plan.work)} per image"
        line += f", {_gib(plan.total(batch, in_flight))} in all"
        if memory is not None:
            largest = plan.largest_batch(memory, in_flight)
            fits = f"largest batch {largest}" if plan.kv else "fits" if largest else "does not fit"
            line += f"; of {_gib(memory)}: {fits}"
        lines.append(line)
    return lines


def refusal(plans: Sequence[RolePlan], load: Load, memory: int) -> str:
    """Why roles do not fit into a device of `memory` bytes each, and what to do; empty when they do."""
    batch, in_flight = load.batch, load.in_flight
    too_large = [plan for plan in plans if plan.total(batch, in_flight) > memory]
    if too_large:  # the tightest speaks, and the advice fits all
        plan = min(too_large, key=lambda one: one.largest_batch(memory, in_flight))
        largest, alone = (min(one.largest_batch(memory, turns) for one in too_large) for turns in (in_flight, 1))
        advice = f"--batch-size {largest} fits" if largest else "it needs a larger device"
        if not largest and alone:
            advice = f"--in-flight 1 with --batch-size {alone} fits"
        return (
            f"the {plan.name} needs about {_gib(plan.total(batch, in_flight))} for micro-batches of {batch} with "
            f"{in_flight} in flight and its device has {_gib(memory)}: {advice}"
        )
    return ""


def parse_bytes(text: str) -> int:
    """ "80GiB", "24 GB", "80" (GiB) -> bytes; UsageError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(gib|gb|g|mib|mb|m)?\s*", text.lower())
    if not found:
        raise UsageError(f"--gpu-memory takes a size such as 80GiB or 24GB, got {text!r}")
    unit = {"gib": GIB, "g": GIB, None: GIB, "gb": 10**9, "mib": 2**20, "m": 2**20, "mb": 10**6}[found[2]]
    return int(float(found[1]) * unit)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mulo_ray.models.plan", description=__doc__.split("\n")[0])
    parser.add_argument("--family", required=True)
    parser.add_argument("--weights", help="folder whose family.json states other sizes; none: the published ones")
    parser.add_argument("--drafter-px", type=int)
    parser.add_argument("--target-px", type=int)
    parser.add_argument("--decoder", choices=DECODERS, default="mulo")
    parser.add_argument("--rows-per-cycle", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--in-flight", type=int, default=3)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpu-memory", help="memory of one device: 80GiB")
    options = parser.parse_args(arguments)
    try:
        card = read_card(options.family, options.weights or (None if options.family == "emoji" else RANDOM))
        load = Load(
            drafter_px=_drafter_px(card, options.drafter_px, options.target_px)
            if options.decoder in _TWO_SCALES
            else None,
            target_px=_known(card, "target", options.target_px or card.default_pair[1]),
            decoder=options.decoder,
            rows_per_cycle=options.rows_per_cycle,
            batch=options.batch_size,
            in_flight=options.in_flight,
        )
        memory = parse_bytes(options.gpu_memory) if options.gpu_memory else None
        plans = role_plans(card, load, options.device)
    except MuloError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.RUN_FAILED)
    print("\n".join(plan_lines(plans, load, options.device, memory)))
    problem = refusal(plans, load, memory) if memory is not None else ""
    if problem:
        print(f"error: {problem}", file=sys.stderr)
    return int(ExitCode.RUN_FAILED if problem else ExitCode.DONE)


def _drafter_px(card: FamilyCard, drafter_px: int | None, target_px: int | None) -> int:
    """The drafter named, else the family's own, else the largest that the target is a multiple of."""
    if drafter_px is not None:
        return _known(card, "drafter", drafter_px)
    target = _known(card, "target", target_px or card.default_pair[1])
    fitting = [px for px in card.scales if px < target and target % px == 0]
    if not fitting:
        raise UsageError(f"no scale of {card.name} can draft for --target-px {target}; use --decoder ar")
    return card.default_pair[0] if card.default_pair[0] in fitting else max(fitting)


def _known(card: FamilyCard, role: str, px: int) -> int:
    if px not in card.scales:
        sides = ", ".join(str(side) for side in sorted(card.scales))
        raise UsageError(f"--{role}-px must be one of {sides} for family {card.name}, got {px}")
    return px


def _gib(number: int) -> str:
    return f"{number / GIB:.2f} GiB"


if __name__ == "__main__":
    sys.exit(main())

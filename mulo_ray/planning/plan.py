"""The search over shapes of group and micro-batches in flight, and what it tells a person."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mulo_ray.errors import UsageError
from mulo_ray.planning.cluster import LAYOUTS, Cluster, Layout
from mulo_ray.planning.phases import Measured, Phases
from mulo_ray.planning.simulation import Outcome, Setup, simulate

MOST_IN_FLIGHT = 6
NEAR = 0.98
"""A choice this close to the fastest is as good: then the fewer micro-batches in flight, the earlier layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is planned; None leaves a choice to the planner."""

    phases: Phases
    cluster: Cluster
    images: int
    in_flight: int | None = None
    group: str | None = None
    start_s: float = 60.0  # Ray, processes and weights, before the first micro-batch
    store_puts_per_s: float = 0.0

    def __post_init__(self) -> None:
        if self.images < 1:
            raise UsageError(f"--prompts must be 1 or more, got {self.images}: how many images the run is to make")
        if self.in_flight is not None and self.in_flight < 1:
            raise UsageError(f"--in-flight must be 1 or more, got {self.in_flight}")
        for name, value in (("--start-s", self.start_s), ("--store-puts-per-s", self.store_puts_per_s)):
            if value < 0:
                raise UsageError(f"{name} must be 0 or more, got {value}")
        if self.group is not None and self.group not in LAYOUTS:
            raise UsageError(f"--group must be one of {', '.join(LAYOUTS)} or left out, got {self.group!r}")

    def setup(self, layout: Layout, groups: int, in_flight: int) -> Setup:
        return Setup(
            phases=self.phases,
            cluster=self.cluster,
            layout=layout,
            groups=groups,
            in_flight=in_flight,
            micro_batches=math.ceil(self.images / self.phases.batch_size),
            store_puts_per_s=self.store_puts_per_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One shape with as many groups as fit, and what it would do."""

    layout: Layout
    groups: int
    in_flight: int
    outcome: Outcome


def choices(question: Question) -> list[Choice]:
    """The best of every layout that fits, the fastest first. UsageError where none fits."""
    drafts = question.phases.drafter_s is not None
    layouts = [
        layout
        for layout in LAYOUTS.values()
        if layout.drafts == drafts and (question.group in (None, layout.name)) and question.cluster.groups_of(layout)
    ]
    if not layouts:
        wanted = f"--group {question.group}" if question.group else "any group"
        raise UsageError(
            f"no node of {question.cluster.places_per_node} {question.cluster.unit}(s) is large enough for {wanted}"
            + ("" if drafts else " of a target alone, which is what phase times without a drafter are of")
            + ": give larger nodes or another --group"
        )
    found = [_best_in_flight(question, layout) for layout in layouts]
    fastest = max(choice.outcome.images_per_s for choice in found)
    order = list(LAYOUTS)
    near = [choice for choice in found if choice.outcome.images_per_s >= NEAR * fastest]
    far = [choice for choice in found if choice not in near]
    near.sort(key=lambda choice: order.index(choice.layout.name))
    return near + sorted(far, key=lambda choice: -choice.outcome.images_per_s)


def _best_in_flight(question: Question, layout: Layout) -> Choice:
    groups = question.cluster.groups_of(layout)
    tried = range(1, MOST_IN_FLIGHT + 1) if question.in_flight is None else [question.in_flight]
    found = [
        Choice(layout=layout, groups=groups, in_flight=number, outcome=simulate(question.setup(layout, groups, number)))
        for number in tried
    ]
    fastest = max(choice.outcome.images_per_s for choice in found)
    return next(choice for choice in found if choice.outcome.images_per_s >= NEAR * fastest)


def plan_text(question: Question, found: Sequence[Choice]) -> str:
    """The plan for people: a line per layout, then the best one in hours, device-hours and bottleneck."""
    phases, cluster, best = question.phases, question.cluster, found[0]
    drafter = "no drafter" if phases.drafter_s is None else f"the drafter {phases.drafter_s:.3g} s"
    lines = [
        f"a micro-batch of {phases.batch_size}: {drafter}, the target {phases.target_s:.3g} s in {phases.cycles} "
        f"cycle(s), rendering {phases.render_s:.3g} s; storing an image {phases.put_s:.3g} s",
        f"{'group':<8}{'groups':>7}{'in flight':>11}{'images/s':>10}  busy",
    ]
    for choice in found:
        busy = ", ".join(f"{kind} {share:.0%}" for kind, share in sorted(choice.outcome.busy.items()))
        rate = f"{choice.outcome.images_per_s:.3g}"
        lines.append(f"{choice.layout.name:<8}{choice.groups:>7}{choice.in_flight:>11}{rate:>10}  {busy}")
    hours = (question.start_s + best.outcome.seconds) / 3600
    name, unit = best.layout.name, cluster.unit
    lines += [
        f"best: {name}, {best.groups} group(s), {best.in_flight} in flight per target: "
        f"{best.outcome.images_per_s:.3g} images/s",
        f"{question.images} images: {hours:.3g} hours, {hours * cluster.units:.3g} {unit}-hours on {cluster.units} "
        f"{unit}(s), {question.start_s:g} s of start-up included",
        f"bottleneck: {_bottleneck(best.outcome)}",
        f"options of the run: --groups {best.groups} --in-flight {best.in_flight}"
        + f" --group {name} --batch-size {phases.batch_size}" * best.layout.drafts,
    ]
    return "\n".join(lines)


def _bottleneck(outcome: Outcome) -> str:
    kind = outcome.bottleneck
    if kind == "in flight":
        return "none is busy all the time: micro-batches wait for each other; more in flight would help"
    return f"{kind}, busy {outcome.busy[kind]:.0%} of the time"


def check_text(measured: Measured, cluster: Cluster) -> str:
    """How near the model comes to the run that was measured, if that ran on such nodes."""
    layout = LAYOUTS.get(measured.group)
    if measured.images_per_s is None or layout is None:
        return "the report holds no rate to check the model against"
    setup = Setup(
        phases=measured.phases,
        cluster=cluster,
        layout=layout,
        groups=measured.groups,
        in_flight=measured.in_flight,
        micro_batches=math.ceil(max(1, measured.images) / measured.phases.batch_size),
    )
    simulated = simulate(setup).images_per_s
    return (
        f"the measured run ({measured.groups} x {measured.group}, {measured.in_flight} in flight) on such nodes: "
        f"{simulated:.3g} images/s simulated, {measured.images_per_s:.3g} measured "
        f"({simulated / measured.images_per_s - 1:+.0%})"
    )

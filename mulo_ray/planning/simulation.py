"""A run as a discrete-event model: drafters, targets, devices, writers and the store as resources with queues.

Mirrors `mulo_ray.workers` (calls of one role in turn; `in_flight` micro-batches per target; one table at a time per
writer, eight puts at once) without importing it. Durations are those that were measured, without spread; what several
processes want of the cores of one node is served in turn, one call each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import simpy

from mulo_ray.planning.cluster import Cluster, Layout
from mulo_ray.planning.phases import Phases

HAND_OVER_S = 0.002
"""From one role to the other: a call between two actors of one node (docs/log.md)."""
PUTS_AT_ONCE = 8
GROUPS_PER_WRITER = 4
GROUPS_SIMULATED = 8
"""Larger clusters are simulated as about this many groups on whole nodes, with writers and store in proportion: they
meet nowhere else."""
MICRO_BATCHES_PER_SLOT = 40
"""What is half done when the middle begins or ends is then a fiftieth of what is counted, or less."""
LEAST_MICRO_BATCHES = 400
MIDDLE = 0.1, 0.9
"""The completions between which a rate is taken, as a run's report does."""

Work = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is simulated."""

    phases: Phases
    cluster: Cluster
    layout: Layout
    groups: int
    in_flight: int  # per target
    micro_batches: int  # of the whole run
    hand_over_s: float = HAND_OVER_S
    store_puts_per_s: float = 0.0  # 0: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`busy` is the share of its time that a kind of resource works, over the middle of the run."""

    images_per_s: float
    seconds: float  # for all micro-batches, start-up left out
    busy: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """The kind that is busiest, or "in flight" where everything waits a tenth of its time or more."""
        kind = max(self.busy, key=lambda one: self.busy[one])
        return kind if self.busy[kind] > 0.9 else "in flight"


def simulate(setup: Setup) -> Outcome:
    """Run the model for some forty micro-batches of every slot. What a long run has beyond them is taken at the rate
    found; a short one is run once more, as short as it is."""
    steady = _Run(setup)
    outcome = steady.outcome()
    if steady.whole >= steady.count:
        return outcome
    return replace(outcome, seconds=_Run(setup, steady.whole).outcome().seconds)


class _Run:
    """One simulation: the resources, and the processes that use them."""

    def __init__(self, setup: Setup, count: int | None = None) -> None:
        self.setup, self.env = setup, simpy.Environment()
        per_node = math.ceil(setup.groups / setup.cluster.nodes)
        self.groups = min(setup.groups, per_node * math.ceil(GROUPS_SIMULATED / per_node))
        self.share = self.groups / setup.groups
        slots = self.groups * setup.in_flight * setup.layout.targets
        self.whole = max(1, math.ceil(setup.micro_batches * self.share))
        self.left = self.count = count or max(LEAST_MICRO_BATCHES, MICRO_BATCHES_PER_SLOT * slots)
        writers = max(1, setup.groups // GROUPS_PER_WRITER)
        self.writer = simpy.Resource(self.env, max(1, round(writers * self.share)))
        self.store = simpy.Resource(self.env, 1)
        self.finished: list[float] = []
        self.intervals: dict[str, list[tuple[float, float]]] = {}
        self.capacity: Counter[str] = Counter(writers=int(self.writer.capacity), store=1)
        nodes: list[simpy.Resource] = []
        for number in range(self.groups):
            if number % per_node == 0:
                nodes.append(simpy.Resource(self.env, setup.cluster.places_per_node))
            group = _SharedGroup(self, nodes[-1]) if setup.layout.shared else _SplitGroup(self, nodes[-1])
            for _ in range(setup.in_flight * setup.layout.targets):
                self.env.process(self._slot(group))
        self.places = len(nodes) * setup.cluster.places_per_node

    def _slot(self, group: _Group) -> Work:
        while self.left:
            self.left -= 1
            target = yield from group.decode()
            self.env.process(self._finish(group, target))

    def _finish(self, group: _Group, target: int) -> Work:
        """What a slot does not wait for: files are made behind the target's next work, and stored."""
        yield from group.render(target)
        phases, limit = self.setup.phases, self.setup.store_puts_per_s * self.share
        with self.writer.request() as turn:
            yield turn
            started = self.env.now
            if limit:
                with self.store.request() as gate:
                    yield gate
                    yield from self.work("store", phases.batch_size / limit)
            yield self.env.timeout(phases.put_s * math.ceil(phases.batch_size / PUTS_AT_ONCE))
            self.intervals.setdefault("writers", []).append((started, self.env.now))
        self.finished.append(self.env.now)

    def work(self, kind: str, seconds: float) -> Work:
        """Keep one of `kind` busy."""
        self.intervals.setdefault(kind, []).append((self.env.now, self.env.now + seconds))
        yield self.env.timeout(seconds)

    def outcome(self) -> Outcome:
        self.env.run()
        moments = np.sort(self.finished)
        low, high = (float(moments[min(len(moments) - 1, int(share * len(moments)))]) for share in MIDDLE)
        if high == low:  # so few that they end together
            low = 0.0
        inside = int(np.searchsorted(moments, high) - np.searchsorted(moments, low))
        rate = inside / (high - low)
        images_per_s = rate * self.setup.phases.batch_size / self.share
        busy = {
            kind: float(sum(max(0.0, min(end, high) - max(start, low)) for start, end in intervals))
            for kind, intervals in self.intervals.items()
        }
        roles = sum(busy.get(kind, 0.0) for kind in ("drafters", "targets", "both roles"))
        shares = {kind: seconds / (high - low) / self.capacity[kind] for kind, seconds in busy.items()}
        if self.groups * self.setup.layout.processes > self.places:
            shares[f"{self.setup.cluster.unit}s"] = roles / (high - low) / self.places
        return Outcome(
            images_per_s=images_per_s,
            seconds=float(moments[min(self.whole, self.count) - 1]) + max(0, self.whole - self.count) / rate,
            busy={kind: round(share, 4) for kind, share in shares.items()},
        )


class _Group:
    """The role processes of one group on one node."""

    def __init__(self, run: _Run, node: simpy.Resource) -> None:
        self.run, self.node = run, node

    def decode(self) -> Generator[simpy.Event, Any, int]:
        """One micro-batch to finished tokens; the number of the target that holds them."""
        raise NotImplementedError

    def render(self, target: int) -> Work:
        """From the tokens on a target to files."""
        raise NotImplementedError

    def call(self, actor: simpy.Resource, kind: str, seconds: float) -> Work:
        """One call: its turn in the actor first, then a device or core of the node."""
        with actor.request() as turn:
            yield turn
            with self.node.request() as place:
                yield place
                yield from self.run.work(kind, seconds)


class _SplitGroup(_Group):
    """Every role has a process; drafts go back and forth `cycles` times."""

    def __init__(self, run: _Run, node: simpy.Resource) -> None:
        super().__init__(run, node)
        layout = run.setup.layout
        self.drafter = simpy.Resource(run.env, 1)
        self.targets = [simpy.Resource(run.env, 1) for _ in range(layout.targets)]
        self.open = [0] * layout.targets
        run.capacity.update(drafters=1, targets=layout.targets)

    def decode(self) -> Generator[simpy.Event, Any, int]:
        phases, hand_over_s = self.run.setup.phases, self.run.setup.hand_over_s
        number = self.open.index(min(self.open))
        self.open[number] += 1
        for _ in range(phases.cycles):
            if phases.drafter_s is not None:
                yield from self.call(self.drafter, "drafters", phases.drafter_s / phases.cycles)
                yield self.run.env.timeout(hand_over_s)
            yield from self.call(self.targets[number], "targets", phases.target_s / phases.cycles)
            yield self.run.env.timeout(hand_over_s)
        return number

    def render(self, target: int) -> Work:
        yield from self.call(self.targets[target], "targets", self.run.setup.phases.render_s)
        self.open[target] -= 1


class _SharedGroup(_Group):
    """Both roles in one process: a micro-batch at a time, nothing is handed over."""

    def __init__(self, run: _Run, node: simpy.Resource) -> None:
        super().__init__(run, node)
        self.both = simpy.Resource(run.env, 1)
        run.capacity.update({"both roles": 1})

    def decode(self) -> Generator[simpy.Event, Any, int]:
        phases = self.run.setup.phases
        seconds = (phases.drafter_s or 0.0) + phases.target_s + phases.render_s
        yield from self.call(self.both, "both roles", seconds)
        yield self.run.env.timeout(self.run.setup.hand_over_s)
        return 0

    def render(self, target: int) -> Work:
        """A part of the one call."""
        yield from ()

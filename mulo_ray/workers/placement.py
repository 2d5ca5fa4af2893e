"""How many groups fit; says no, with both numbers, before anything starts.

`preflight` is handed what the cluster holds, so it runs without Ray. Knows no model.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mulo_ray.config import RunOptions
from mulo_ray.errors import PlacementError
from mulo_ray.workers.shapes import GroupShape, Node, group_shape

CPUS_PER_WRITER = 0.1
CPUS_PER_SPREAD_GROUP = 0.1
"""Of a group across nodes, whose devices its placement group holds."""
MOST_GROUPS = 1024
"""As many may join a run on a cluster that grows."""
GROUP_BYTES = 300 * 2**20
"""Python and Ray of the group's own process, which holds no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The answer of `preflight`: `groups` start at once, up to `max_groups` as an elastic cluster grows."""

    shape: GroupShape
    groups: int
    max_groups: int
    max_text: int = 1  # actors of the text stage; one starts, more follow where it is what the groups wait for

    @property
    def sentence(self) -> str:
        shape = self.shape
        where = "CPU" if shape.device == "cpu" else "one shared GPU" if shape.shares_gpu else f"{shape.num_gpus:g} GPU"
        where += " across nodes" * shape.spread
        roles = f"{shape.roles} role{'s' * (shape.roles > 1)}"
        roles += " in one process" * shape.shared
        text = f", text stage on {shape.text_gpus:g} GPU" * bool(shape.text_gpus) + ", text stage" * bool(
            shape.text_cpus
        )
        return f"{self.groups} group{'s' * (self.groups > 1)} of {roles}, each on {where}{text}"


def preflight(
    options: RunOptions,
    *,
    roles: int,
    role_bytes: int,
    nodes: Callable[[], Sequence[Node]],
    say: Callable[[str], None],
    request: Callable[[GroupShape, int], None] = lambda shape, groups: None,
    text_bytes: int = 0,
) -> Placement:
    """How many groups start, and on what.

    `nodes` lists what the cluster holds now; with --wait-for-gpus it is asked again every few seconds, and `request`
    asks an autoscaler for the missing ones. `text_bytes` is the memory of a text stage; 0 where there is none. Raises
    PlacementError with what is needed and what is there.
    """
    wanted = options.groups or options.min_groups
    deadline = time.monotonic() + options.wait_for_gpus
    asked = False
    while True:
        now = nodes()
        shape = group_shape(options, roles, now, text=text_bytes > 0)
        fit = capacity(shape, role_bytes, now, text_bytes)
        left_s = deadline - time.monotonic()
        if fit >= wanted or left_s <= 0:
            break
        if not asked:
            request(shape, wanted)
            asked = True
        say(f"waiting for devices: {fit} of {wanted} groups fit, {left_s:.0f} s left")
        time.sleep(min(5.0, left_s))
    elastic = options.wait_for_gpus > 0
    if fit < (options.min_groups if elastic else max(wanted, options.min_groups)):
        raise PlacementError(_refusal(options, shape, role_bytes, fit, now, text_bytes))
    if options.groups is not None:
        groups, most = min(options.groups, fit), options.groups
    else:
        # More busy roles than cores make nothing faster, so the default is one role per core, where as many fit.
        busy = shape.processes * shape.threads
        comfortable = fit if shape.device == "cuda" else sum(int(node.get("CPU", 0) // busy) for node in now)
        groups = most = max(options.min_groups, min(fit, comfortable))
        if elastic and shape.device == "cuda" and not shape.spread:
            most = max(groups, MOST_GROUPS)
    return Placement(
        shape=shape, groups=groups, max_groups=most, max_text=_max_text(shape, groups, role_bytes, now, text_bytes)
    )


def _max_text(shape: GroupShape, groups: int, role_bytes: int, nodes: Sequence[Node], text_bytes: int) -> int:
    """Actors of the text stage at most: one per group, and on CPUs only on cores and memory that `groups` leave.

    Ray counts no memory here, and an actor that finds too little of it ends the run.
    """
    if shape.device == "cuda" or not text_bytes:
        return groups
    cores = sum(node.get("CPU", 0) for node in nodes) - groups * shape.processes * shape.threads
    memory = sum(node.get("memory", float(2**60)) for node in nodes) - groups * _group_bytes(shape, role_bytes)
    return int(max(1, min(groups, cores, memory // text_bytes)))


def capacity(shape: GroupShape, role_bytes: int, nodes: Sequence[Node], text_bytes: int = 0) -> int:
    """Groups that fit, node by node: by devices, and on CPUs by memory too, beside one writer and one text stage."""
    if shape.device == "cuda":
        gpus = [node.get("GPU", 0) for node in nodes]
        if shape.spread:
            return int(max(0, sum(gpus) - shape.text_gpus) // shape.num_gpus)
        if not shape.text_gpus:
            return sum(int(held // shape.num_gpus) for held in gpus)
        # The text stage goes where it costs the fewest groups.
        left = [[*gpus[:n], held - shape.text_gpus, *gpus[n + 1 :]] for n, held in enumerate(gpus)]
        return max((sum(int(held // shape.num_gpus) for held in row) for row in left if min(row) >= 0), default=0)
    other_cpus, fit = CPUS_PER_WRITER + shape.text_cpus, 0
    for node in nodes:
        by_cpu = int(max(0, node.get("CPU", 0) - other_cpus) / shape.num_cpus)
        memory = max(0, node.get("memory", float(2**60)) - text_bytes)
        by_memory = int(memory // _group_bytes(shape, role_bytes))
        other_cpus = text_bytes = 0  # they take room on one node only
        fit += min(by_cpu, by_memory)
    return fit


def _group_bytes(shape: GroupShape, role_bytes: int) -> int:
    return shape.roles * role_bytes + GROUP_BYTES


def _refusal(
    options: RunOptions, shape: GroupShape, role_bytes: int, fit: int, nodes: Sequence[Node], text_bytes: int
) -> str:
    wanted = options.groups or options.min_groups
    groups = f"{wanted} group{'s' * (wanted > 1)} ({shape.members} each)"
    groups += " and a text stage" if shape.text_cpus or shape.text_gpus else ""
    advice = f"which holds {fit}: use --groups {fit} or fewer, or a larger cluster" if fit else "which holds none"
    if shape.device == "cuda":
        gpus, most = sum(node.get("GPU", 0) for node in nodes), max((node.get("GPU", 0) for node in nodes), default=0)
        need = f"{groups} need {shape.num_gpus * wanted + shape.text_gpus:g} GPUs"
        need += "" if shape.spread else f", {shape.num_gpus:g} of them on one node"
        have = f"the cluster has {gpus:g}, at most {most:g} on one node"
        if not gpus:
            return f"{need}; {have}: use --device cpu, or --wait-for-gpus SECONDS while the cluster grows"
        if not fit and not shape.spread and gpus >= shape.num_gpus + shape.text_gpus:
            advice = "which holds none: use a smaller --group, or --span-nodes"
        return f"{need}; {have}, {advice}"
    need_gib = (wanted * _group_bytes(shape, role_bytes) + text_bytes) / 2**30
    have_gib = sum(node.get("memory", 0) for node in nodes) / 2**30
    need_cpus = shape.num_cpus * wanted + CPUS_PER_WRITER + shape.text_cpus
    need = f"{groups} need {need_cpus:g} CPUs (four roles to a core) and {need_gib:.1f} GiB"
    return f"{need}; the cluster has {sum(node.get('CPU', 0) for node in nodes):g} and {have_gib:.1f} GiB, {advice}"

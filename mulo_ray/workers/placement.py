"""How many groups fit, and where their actors go; says no, with both numbers, before anything starts.

`preflight` is handed what the cluster holds, so it runs without Ray; only `place_child` runs in one. Knows no model.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mulo_ray.config import RunOptions
from mulo_ray.errors import PlacementError

CPUS_PER_ROLE = 0.25
"""Reserved for one role on a CPU: small, so that laptops run, and at once the limit of four roles per core."""
CPUS_PER_WRITER = 0.1
TEXT_SHARE_OF_ONLY_GPU = 0.25
GROUP_BYTES = 300 * 2**20
"""Python and Ray of the group's own process, which holds no model."""

Node = Mapping[str, float]
"""What one live node holds in all, as Ray names it: "CPU", "GPU", "memory" (bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """What one group reserves on one node; its role actors reserve nothing more."""

    device: str  # "cpu" or "cuda"
    roles: int
    num_cpus: float
    num_gpus: float
    targets: int = 1  # beside at most one drafter
    shared: bool = False  # both roles in one process on one device
    threads: int = 1  # of torch per role process on CPUs
    text_cpus: float = 0.0  # what one actor of the text stage reserves; nothing where the family has none
    text_gpus: float = 0.0

    @property
    def name(self) -> str:
        """Drafters to targets, "shared", or "1" where the target is alone."""
        if self.shared:
            return "shared"
        return "1" if self.roles == self.targets else f"{self.roles - self.targets}:{self.targets}"

    @property
    def shares_gpu(self) -> bool:
        return 0 < self.num_gpus < self.roles


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
        roles = f"{shape.roles} role{'s' * (shape.roles > 1)}"
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
        comfortable = fit if shape.device == "cuda" else sum(int(node.get("CPU", 0) // roles) for node in now)
        groups = most = max(options.min_groups, min(fit, comfortable))
    return Placement(
        shape=shape, groups=groups, max_groups=most, max_text=_max_text(shape, most, role_bytes, now, text_bytes)
    )


def _max_text(shape: GroupShape, groups: int, role_bytes: int, nodes: Sequence[Node], text_bytes: int) -> int:
    """Actors of the text stage at most: one per group, and on CPUs only on cores and memory that `groups` leave.

    Ray counts no memory here, and an actor that finds too little of it ends the run.
    """
    if shape.device == "cuda" or not text_bytes:
        return groups
    cores = sum(node.get("CPU", 0) for node in nodes) - groups * shape.roles
    memory = sum(node.get("memory", float(2**60)) for node in nodes) - groups * _group_bytes(shape, role_bytes)
    return int(max(1, min(groups, cores, memory // text_bytes)))


def group_shape(options: RunOptions, roles: int, nodes: Sequence[Node], *, text: bool = False) -> GroupShape:
    """The reservation of one group: a GPU per role, one shared GPU where there are no more, or slices of CPUs.

    A text stage gets a GPU of its own where there are two, and a quarter of the only one.
    """
    gpus = [node.get("GPU", 0) for node in nodes]
    most_gpus = max(gpus, default=0)
    waits = options.wait_for_gpus > 0
    if options.device == "cpu" or (options.device == "auto" and not most_gpus and not waits):
        return GroupShape(
            device="cpu",
            roles=roles,
            num_cpus=CPUS_PER_ROLE * roles,
            num_gpus=0,
            text_cpus=CPUS_PER_ROLE if text else 0,
        )
    if text and sum(gpus) == 1 and not waits:
        quarter = TEXT_SHARE_OF_ONLY_GPU
        return GroupShape(device="cuda", roles=roles, num_cpus=0, num_gpus=1 - quarter, text_gpus=quarter)
    shares = 1 <= min(most_gpus, sum(gpus) - text) < roles and not waits
    return GroupShape(
        device="cuda", roles=roles, num_cpus=0, num_gpus=1 if shares else roles, text_gpus=1 if text else 0
    )


def capacity(shape: GroupShape, role_bytes: int, nodes: Sequence[Node], text_bytes: int = 0) -> int:
    """Groups that fit, node by node: by devices, and on CPUs by memory too, beside one writer and one text stage."""
    if shape.device == "cuda":
        gpus = [node.get("GPU", 0) for node in nodes]
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


def place_child(shape: GroupShape, role: int) -> dict[str, Any]:
    """Actor options of role number `role`; called inside the group's own actor, whose node and devices it inherits.

    The group holds the reservation; a child that dies is never restarted alone.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    pinned: dict[str, Any] = {}
    if shape.device == "cuda":
        held = ray.get_gpu_ids()
        pinned["runtime_env"] = {"env_vars": {"CUDA_VISIBLE_DEVICES": str(held[min(role, len(held) - 1)])}}
    return {
        "num_cpus": 0,
        "num_gpus": 0,
        "max_restarts": 0,
        "max_task_retries": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False),
        **pinned,
    }


def _group_bytes(shape: GroupShape, role_bytes: int) -> int:
    return shape.roles * role_bytes + GROUP_BYTES


def _refusal(
    options: RunOptions, shape: GroupShape, role_bytes: int, fit: int, nodes: Sequence[Node], text_bytes: int
) -> str:
    wanted = options.groups or options.min_groups
    groups = f"{wanted} group{'s' * (wanted > 1)} ({'1 target' if shape.roles == 1 else '1 drafter, 1 target'} each)"
    groups += " and a text stage" if shape.text_cpus or shape.text_gpus else ""
    advice = f"which holds {fit}: use --groups {fit} or fewer, or a larger cluster" if fit else "which holds none"
    if shape.device == "cuda":
        gpus, most = sum(node.get("GPU", 0) for node in nodes), max((node.get("GPU", 0) for node in nodes), default=0)
        need = (
            f"{groups} need {shape.num_gpus * wanted + shape.text_gpus:g} GPUs, {shape.num_gpus:g} of them on one node"
        )
        have = f"the cluster has {gpus:g}, at most {most:g} on one node"
        if not gpus:
            return f"{need}; {have}: use --device cpu, or --wait-for-gpus SECONDS while the cluster grows"
        return f"{need}; {have}, {advice}"
    need_gib = (wanted * _group_bytes(shape, role_bytes) + text_bytes) / 2**30
    have_gib = sum(node.get("memory", 0) for node in nodes) / 2**30
    need_cpus = shape.num_cpus * wanted + CPUS_PER_WRITER + shape.text_cpus
    need = f"{groups} need {need_cpus:g} CPUs (four roles to a core) and {need_gib:.1f} GiB"
    return f"{need}; the cluster has {sum(node.get('CPU', 0) for node in nodes):g} and {have_gib:.1f} GiB, {advice}"

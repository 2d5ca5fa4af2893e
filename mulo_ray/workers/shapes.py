"""What one group consists of and reserves. Knows numbers only: no Ray, no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mulo_ray.config import RunOptions

CPUS_PER_ROLE = 0.25
"""Reserved for one role on a CPU: small, so that laptops run, and at once the limit of four roles per core."""
TEXT_SHARE_OF_ONLY_GPU = 0.25

Node = Mapping[str, float]
"""What one live node holds in all, as Ray names it: "CPU", "GPU", "memory" (bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """What one group reserves on one node, or across nodes; its role actors on one node reserve nothing more."""

    device: str  # "cpu" or "cuda"
    roles: int  # networks of one group: its targets, and a drafter where the decoder has one
    num_cpus: float
    num_gpus: float
    targets: int = 1
    shared: bool = False  # both roles in one process on one device
    spread: bool = False  # on devices of several nodes, reserved by a placement group
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
    def processes(self) -> int:
        """Role actors of one group; on GPUs each wants a device."""
        return 1 if self.shared else self.roles

    @property
    def shares_gpu(self) -> bool:
        return 0 < self.num_gpus < self.processes

    @property
    def members(self) -> str:
        """`1 drafter, 3 targets`."""
        targets = f"{self.targets} target{'s' * (self.targets > 1)}"
        return targets if self.roles == self.targets else f"1 drafter, {targets}"


def group_shape(options: RunOptions, roles: int, nodes: Sequence[Node], *, text: bool = False) -> GroupShape:
    """The shape that --group names, for a decoder of `roles` (1: no drafter): a GPU per process, one GPU for a 1:1
    group where no node has more, or slices of CPUs.

    A text stage gets a GPU of its own where there are two, and a quarter of the only one. With --span-nodes a group
    that is larger than every node takes GPUs of several.
    """
    gpus = [node.get("GPU", 0) for node in nodes]
    most_gpus = max(gpus, default=0)
    waits = options.wait_for_gpus > 0
    shared = options.group == "shared" and roles > 1
    members = roles if roles == 1 else 1 + options.targets
    wanted = 1 if shared else members
    if options.device == "cpu" or (options.device == "auto" and not most_gpus and not waits):
        return GroupShape(
            device="cpu",
            roles=members,
            num_cpus=CPUS_PER_ROLE * wanted * options.threads,
            num_gpus=0,
            targets=options.targets,
            shared=shared,
            threads=options.threads,
            text_cpus=CPUS_PER_ROLE if text else 0,
        )
    only_one = text and sum(gpus) == 1 and not waits
    text_gpus = 0 if not text else TEXT_SHARE_OF_ONLY_GPU if only_one else 1
    fits_one_node = most_gpus >= wanted
    shares = members == 2 and not options.span_nodes and 1 <= min(most_gpus, sum(gpus) - text) < wanted and not waits
    num_gpus = 1 - text_gpus if only_one and wanted <= 2 else 1 if shares else wanted
    return GroupShape(
        device="cuda",
        roles=members,
        num_cpus=0,
        num_gpus=num_gpus,
        targets=options.targets,
        shared=shared,
        spread=options.span_nodes and not fits_one_node,
        text_gpus=text_gpus,
    )

"""Shapes of groups, and how many of them a cluster holds. Numbers only."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mulo_ray.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One shape of group: its targets, and the processes that want a device (or cores) each."""

    name: str  # as --group names it
    targets: int
    processes: int
    drafts: bool = True  # it has a drafter

    @property
    def shared(self) -> bool:
        """Drafter and target are one process."""
        return self.drafts and self.processes == self.targets


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        layout.name: layout
        for layout in (
            Layout(name="shared", targets=1, processes=1),
            Layout(name="1:1", targets=1, processes=2),
            Layout(name="1:2", targets=2, processes=3),
            Layout(name="1:3", targets=3, processes=4),
            Layout(name="1", targets=1, processes=1, drafts=False),
        )
    }
)
"""In the order in which equals are preferred; `1` is a target alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Equal nodes. With GPUs a process works on one of them; without, on `threads` cores."""

    nodes: int = 1
    gpus_per_node: int = 0
    cores: int = 0  # per node
    threads: int = 1

    def __post_init__(self) -> None:
        for name, value, least in (
            ("--nodes", self.nodes, 1),
            ("--gpus-per-node", self.gpus_per_node, 0),
            ("--cores", self.cores, 0),
            ("--threads", self.threads, 1),
        ):
            if value < least:
                raise UsageError(f"{name} must be {least} or more, got {value}")
        if not self.places_per_node:
            raise UsageError(
                f"a node of {self.gpus_per_node} GPUs and {self.cores} cores runs nothing at {self.threads} thread(s) "
                "per process: give --gpus-per-node, or --cores for a run on CPUs"
            )

    @property
    def unit(self) -> str:
        """What is paid for by the hour."""
        return "GPU" if self.gpus_per_node else "core"

    @property
    def units(self) -> int:
        return self.nodes * (self.gpus_per_node or self.cores)

    @property
    def places_per_node(self) -> int:
        """Processes that can work at once on one node."""
        return self.gpus_per_node or self.cores // self.threads

    def groups_of(self, layout: Layout) -> int:
        """How many groups a run would start, no group across nodes: 0 where none fits.

        As in a run, two processes may share the only GPU of a node, and any number the cores of one.
        """
        whole = self.nodes * (self.places_per_node // layout.processes)
        if whole:
            return whole
        if self.gpus_per_node:
            return self.nodes if layout.processes == 2 else 0
        return 1

"""The planner imports no worker, so what both know is written twice: here is where they must agree."""

import pytest

from mulo_ray.config import RunOptions
from mulo_ray.planning import simulation
from mulo_ray.planning.cluster import LAYOUTS, Cluster
from mulo_ray.planning.phases import Phases
from mulo_ray.workers import auto, timeline, writer
from mulo_ray.workers.placement import preflight
from mulo_ray.workers.shapes import Node, group_shape

GIB = 2**30


def test_constants() -> None:
    assert simulation.PUTS_AT_ONCE == writer.PUTS_AT_ONCE
    assert simulation.GROUPS_PER_WRITER == writer.GROUPS_PER_WRITER
    assert simulation.MIDDLE == timeline.MIDDLE


@pytest.mark.parametrize("name", LAYOUTS)
def test_shapes(name: str) -> None:
    nodes: list[Node] = [{"CPU": 16.0, "GPU": 8.0}]
    options, roles = (RunOptions(), 1) if name == "1" else (RunOptions(group=name), 2)  # type: ignore[arg-type]
    shape, layout = group_shape(options, roles, nodes), LAYOUTS[name]
    assert (shape.name, shape.targets, shape.processes) == (layout.name, layout.targets, layout.processes)
    assert (shape.shared, shape.roles > shape.targets) == (layout.shared, layout.drafts)


def test_every_shape_of_a_pair_is_planned() -> None:
    assert set(auto.SHAPES) == {name for name, layout in LAYOUTS.items() if layout.drafts}


@pytest.mark.parametrize("name", auto.SHAPES)
@pytest.mark.parametrize(("cores", "gpus"), [(2, 0), (32, 4), (64, 12)])
@pytest.mark.parametrize(("drafter_s", "target_s"), [(0.2, 0.6), (0.5, 0.5)])
def test_rates(name: str, cores: int, gpus: int, drafter_s: float, target_s: float) -> None:
    """Arithmetic in a run, a simulation in the planner: groups that fit, and images per second within a tenth."""
    nodes: list[Node] = [{"CPU": float(cores), "GPU": float(gpus), "memory": 64.0 * GIB}]
    placement = preflight(RunOptions(group=name), roles=2, role_bytes=GIB, nodes=lambda: nodes, say=print)  # type: ignore[arg-type]
    assert placement.groups == Cluster(cores=cores, gpus_per_node=gpus).groups_of(LAYOUTS[name])
    expected = auto.expected_rate(placement, auto.Phases(drafter_s=drafter_s, target_s=target_s), 3, nodes)
    setup = simulation.Setup(
        phases=Phases(drafter_s=drafter_s, target_s=target_s, batch_size=1),
        cluster=Cluster(cores=cores, gpus_per_node=gpus),
        layout=LAYOUTS[name],
        groups=placement.groups,
        in_flight=3,
        micro_batches=10_000,
    )
    assert simulation.simulate(setup).images_per_s == pytest.approx(expected, rel=0.1)

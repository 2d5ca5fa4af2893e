"""--group auto: the shape with the highest expected rate, and why."""

import pytest

from mulo_ray.config import RunOptions
from mulo_ray.workers.auto import SHAPES, Phases, choose, expected_rate
from mulo_ray.workers.placement import Placement, preflight
from mulo_ray.workers.shapes import Node

GIB = 2**30


def place(group: str, nodes: list[Node], **options: object) -> Placement:
    run = RunOptions(group=group, **options)  # type: ignore[arg-type]
    return preflight(run, roles=2, role_bytes=GIB, nodes=lambda: nodes, say=print)


def chosen(nodes: list[Node], phases: Phases, *without: str, in_flight: int = 3) -> tuple[str, str]:
    fitting = {name: place(name, nodes) for name in SHAPES if name not in without}
    return choose(fitting, phases, batch_size=8, in_flight=in_flight, nodes=nodes)


def test_two_cores_run_two_processes_of_both_roles() -> None:
    name, why = chosen([{"CPU": 2.0, "memory": 20.0 * GIB}], Phases(drafter_s=0.2, target_s=0.6))
    assert name == "shared"
    assert "2 x shared 20, 1 x 1:1 13.3" in why
    assert why.endswith("taking shared")


@pytest.mark.parametrize(
    ("drafter_s", "target_s", "best"), [(0.5, 0.5, "1:1"), (0.25, 0.5, "1:2"), (0.2, 0.6, "1:3"), (0.9, 0.3, "1:1")]
)
def test_where_a_device_holds_one_role_only_the_ratio_decides(drafter_s: float, target_s: float, best: str) -> None:
    nodes: list[Node] = [{"CPU": 32.0, "GPU": 12.0}]
    assert chosen(nodes, Phases(drafter_s=drafter_s, target_s=target_s), "shared")[0] == best


def test_without_micro_batches_in_flight_a_pair_is_slower_than_its_slower_role() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 2.0}]
    phases = Phases(drafter_s=0.5, target_s=0.5)
    assert expected_rate(place("1:1", nodes), phases, 1, nodes) == 1.0
    assert expected_rate(place("1:1", nodes), phases, 2, nodes) == 2.0


def test_one_gpu_that_two_processes_share_is_no_faster_than_one_process() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 1.0}]
    phases = Phases(drafter_s=0.5, target_s=0.5)
    assert expected_rate(place("1:1", nodes), phases, 3, nodes) == expected_rate(
        place("shared", nodes), phases, 3, nodes
    )

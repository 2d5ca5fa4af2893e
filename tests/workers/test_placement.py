"""Preflight without Ray: what fits, what is refused, and with which numbers."""

import itertools
from collections.abc import Sequence

import pytest

from mulo_ray.config import GroupName, RunOptions
from mulo_ray.errors import PlacementError
from mulo_ray.workers.placement import Placement, preflight
from mulo_ray.workers.shapes import Node

GIB = 2**30
LAPTOP: Node = {"CPU": 2.0, "memory": 12.0 * GIB}


def place(options: RunOptions, nodes: Sequence[Node], roles: int = 2) -> Placement:
    return preflight(options, roles=roles, role_bytes=GIB, nodes=lambda: nodes, say=lambda _: None)


def test_two_cores_hold_two_groups_and_take_one_by_default() -> None:
    assert place(RunOptions(), [LAPTOP]).groups == 1
    assert place(RunOptions(groups=2), [LAPTOP]).groups == 2
    assert place(RunOptions(), [LAPTOP], roles=1).groups == 2
    assert place(RunOptions(), [{"CPU": 1.0, "memory": 8.0 * GIB}]).groups == 1


def test_more_groups_than_the_machine_holds_are_refused_with_both_numbers() -> None:
    with pytest.raises(PlacementError, match=r"9 groups .* need 4\.6 CPUs .* has 2 and .* use --groups 3 or fewer"):
        place(RunOptions(groups=9), [LAPTOP])


def test_memory_counts() -> None:
    with pytest.raises(PlacementError, match=r"need .* and 6\.9 GiB; the cluster has 2 and 5\.0 GiB, which holds 2"):
        place(RunOptions(groups=3), [{"CPU": 2.0, "memory": 5.0 * GIB}])


def test_no_gpu_is_said_and_not_waited_for() -> None:
    """docs/reports.md D4: both numbers and the CPU flag."""
    with pytest.raises(PlacementError, match=r"need 2 GPUs.*has 0.*--device cpu"):
        place(RunOptions(device="cuda"), [LAPTOP])


def test_groups_of_gpus_stay_on_one_node() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 4.0}, {"CPU": 8.0, "GPU": 3.0}, {"CPU": 8.0}]
    placement = place(RunOptions(), nodes)
    assert (placement.groups, placement.shape.num_gpus, placement.shape.num_cpus) == (3, 2, 0)
    assert place(RunOptions(device="cpu", groups=1), nodes).shape.device == "cpu"


def test_one_gpu_is_shared_by_both_roles() -> None:
    placement = place(RunOptions(), [{"CPU": 8.0, "GPU": 1.0}])
    assert placement.shape.shares_gpu
    assert placement.sentence == "1 group of 2 roles, each on one shared GPU"


def test_a_growing_cluster_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """reports D4: with progress lines and a limit; the autoscaler is asked once."""
    clock = itertools.count(step=2.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("time.sleep", lambda _: None)
    states: list[list[Node]] = [[LAPTOP], [LAPTOP, {"CPU": 8.0, "GPU": 2.0}], [{"CPU": 8.0, "GPU": 8.0}]]
    said: list[str] = []
    asked: list[int] = []
    placement = preflight(
        RunOptions(wait_for_gpus=60, groups=4),
        roles=2,
        role_bytes=GIB,
        nodes=lambda: states.pop(0),
        say=said.append,
        request=lambda shape, groups: asked.append(groups),
    )
    assert placement.groups == 4
    assert asked == [4]
    assert len(said) == 2
    assert said[0].startswith("waiting for devices: 0 of 4 groups fit")


def test_what_is_there_when_the_wait_ends_is_used_from_min_groups_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=20.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("time.sleep", lambda _: None)
    one_group: list[Node] = [{"CPU": 8.0, "GPU": 2.0}]
    placement = place(RunOptions(wait_for_gpus=60, groups=4), one_group)
    assert (placement.groups, placement.max_groups) == (1, 4)
    with pytest.raises(PlacementError, match="which holds 1"):
        place(RunOptions(wait_for_gpus=60, groups=4, min_groups=2), one_group)


def place_text(options: RunOptions, nodes: Sequence[Node], roles: int = 2) -> Placement:
    """A family with a text stage of 4 GiB."""
    say = lambda _: None  # noqa: E731
    return preflight(options, roles=roles, role_bytes=GIB, nodes=lambda: nodes, say=say, text_bytes=4 * GIB)


@pytest.mark.parametrize(
    ("gpus", "roles", "groups", "num_gpus", "text_gpus"),
    [
        ([8.0], 2, 3, 2, 1),
        ([2.0, 1.0], 2, 1, 2, 1),
        ([2.0], 2, 1, 1, 1),
        ([1.0, 1.0, 1.0], 2, 2, 1, 1),
        ([1.0], 2, 1, 0.75, 0.25),
        ([1.0], 1, 1, 0.75, 0.25),
        ([4.0], 1, 3, 1, 1),
    ],
)
def test_a_text_stage_gets_room_beside_the_groups(
    gpus: list[float], roles: int, groups: int, num_gpus: float, text_gpus: float
) -> None:
    placement = place_text(RunOptions(), [{"CPU": 8.0, "GPU": gpu} for gpu in gpus], roles)
    assert (placement.groups, placement.shape.num_gpus, placement.shape.text_gpus) == (groups, num_gpus, text_gpus)
    assert placement.sentence.endswith(f", text stage on {text_gpus:g} GPU")


def test_a_text_stage_on_a_cpu_takes_memory_and_a_quarter_of_a_core() -> None:
    placement = place_text(RunOptions(groups=2), [LAPTOP])
    assert (placement.shape.text_cpus, placement.groups) == (0.25, 2)
    with pytest.raises(PlacementError, match=r"and a text stage need 1\.85 CPUs .* and 10\.9 GiB; .* which holds 1"):
        place_text(RunOptions(groups=3), [{"CPU": 2.0, "memory": 8.0 * GIB}])
    with pytest.raises(PlacementError, match=r"and a text stage need 5 GPUs, .*; the cluster has 4"):
        place_text(RunOptions(groups=2), [{"CPU": 8.0, "GPU": 4.0}])


def test_a_text_stage_on_a_cpu_grows_into_what_the_groups_leave_only() -> None:
    """Another copy of a language model that finds no memory would end the run."""
    assert place_text(RunOptions(), [LAPTOP]).max_text == 1
    assert place_text(RunOptions(groups=2), [{"CPU": 8.0, "memory": 64.0 * GIB}]).max_text == 2
    assert place_text(RunOptions(groups=4), [{"CPU": 10.0, "memory": 64.0 * GIB}]).max_text == 2
    assert place_text(RunOptions(groups=4), [{"CPU": 16.0, "memory": 22.0 * GIB}]).max_text == 3
    assert place_text(RunOptions(groups=3), [{"CPU": 8.0, "GPU": 8.0}]).max_text == 3


@pytest.mark.parametrize(
    ("group", "gpus", "groups", "num_gpus"),
    [("1:2", [8.0], 2, 3), ("1:3", [8.0, 4.0], 3, 4), ("shared", [2.0, 1.0], 3, 1)],
)
def test_a_group_has_a_device_per_process(group: GroupName, gpus: list[float], groups: int, num_gpus: int) -> None:
    placement = place(RunOptions(group=group), [{"CPU": 8.0, "GPU": gpu} for gpu in gpus])
    assert (placement.groups, placement.shape.num_gpus, placement.shape.name) == (groups, num_gpus, group)


def test_a_large_group_is_refused_or_spans_nodes() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 2.0}] * 3
    with pytest.raises(
        PlacementError, match=r"1 drafter, 3 targets each\) need 4 GPUs, 4 of them on one node.*--span-nodes"
    ):
        place(RunOptions(group="1:3"), nodes)
    placement = place(RunOptions(group="1:3", span_nodes=True), nodes)
    assert (placement.shape.spread, placement.groups, placement.max_groups) == (True, 1, 1)
    assert placement.sentence == "1 group of 4 roles, each on 4 GPU across nodes"
    assert place(RunOptions(span_nodes=True), [{"CPU": 8.0, "GPU": 1.0}] * 2).shape.spread
    assert not place(RunOptions(group="1:2", span_nodes=True), [{"CPU": 8.0, "GPU": 3.0}]).shape.spread
    with pytest.raises(PlacementError, match=r"need 4 GPUs; the cluster has 2"):
        place(RunOptions(group="1:3", span_nodes=True), nodes[:1])


def test_processes_and_threads_fill_the_cores() -> None:
    assert place(RunOptions(group="shared"), [LAPTOP]).groups == 2
    assert place(RunOptions(group="shared", threads=2), [LAPTOP]).groups == 1
    assert place(RunOptions(group="1:3"), [{"CPU": 8.0, "memory": 64.0 * GIB}]).groups == 2


def test_groups_may_join_while_a_cluster_grows() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 2.0}]
    assert place(RunOptions(wait_for_gpus=1), nodes).max_groups > 100
    assert place(RunOptions(wait_for_gpus=1, groups=1), nodes).max_groups == 1
    assert place(RunOptions(), nodes).max_groups == 1

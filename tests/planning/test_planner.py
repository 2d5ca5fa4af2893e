"""The planner: which shape wins, what it says to people, and what cannot be planned."""

from collections.abc import Callable
from typing import Any

import pytest

from mulo_ray.errors import UsageError
from mulo_ray.planning.cluster import LAYOUTS, Cluster
from mulo_ray.planning.phases import Phases
from mulo_ray.planning.plan import Question, choices
from mulo_ray.planning.recipe import PlanOptions, plan

REPORT: dict[str, Any] = {
    "total": 800,
    "summary": {"per_image": {"cycles": {"mean": 1.0}}},
    "phases": {
        "drafter_s": 0.05,
        "target_s": 0.05,
        "render_s": 0.0,
        "put_s": None,
        "batch_size": 4,
        "group": "1:1",
        "groups": 1,
        "in_flight": 3,
        "images_per_s": 76.0,
        "micro_batches": 200,
    },
}


def best(**phases: float) -> str:
    question = Question(phases=Phases(batch_size=8, **phases), cluster=Cluster(gpus_per_node=4), images=10_000)
    return choices(question)[0].layout.name


def test_the_fastest_shape_wins_and_of_equals_the_simplest() -> None:
    """On four GPUs `shared` keeps each busy; it loses only where it does not exist."""
    assert best(drafter_s=1.0, target_s=1.0) == "shared"
    assert best(target_s=1.0) == "1"
    found = choices(
        Question(phases=Phases(drafter_s=1.0, target_s=3.0), cluster=Cluster(gpus_per_node=4), images=10_000)
    )
    rates = [round(choice.outcome.images_per_s, 1) for choice in found]
    assert [choice.layout.name for choice in found][:2] == ["shared", "1:3"]
    assert rates == sorted(rates, reverse=True)


def test_no_more_in_flight_than_it_takes() -> None:
    question = Question(
        phases=Phases(drafter_s=1.0, target_s=1.0), cluster=Cluster(cores=2), images=10_000, group="1:1"
    )
    [choice] = choices(question)
    assert choice.in_flight == 2


@pytest.mark.parametrize(
    ("cluster", "group", "groups"),
    [
        (Cluster(nodes=4, gpus_per_node=8), "1:1", 16),
        (Cluster(nodes=4, gpus_per_node=8), "1:3", 8),
        (Cluster(nodes=3, gpus_per_node=3), "1:1", 3),
        (Cluster(nodes=2, gpus_per_node=1), "1:1", 2),  # both roles share the only GPU
        (Cluster(nodes=2, gpus_per_node=1), "1:2", 0),
        (Cluster(cores=2), "shared", 2),
        (Cluster(cores=2), "1:2", 1),
        (Cluster(cores=8, threads=4), "1:1", 1),
    ],
)
def test_how_many_groups_fit(cluster: Cluster, group: str, groups: int) -> None:
    assert cluster.groups_of(LAYOUTS[group]) == groups


def test_the_plan_in_words() -> None:
    text = plan(PlanOptions(nodes=2, gpus_per_node=8, prompts=1_000_000, group="1:1"), REPORT)
    assert "best: 1:1, 8 group(s), 3 in flight per target: 640 images/s" in text
    assert "1000000 images: 0.451 hours, 7.21 GPU-hours on 16 GPU(s)" in text
    assert "bottleneck: " in text
    assert "options of the run: --groups 8 --in-flight 3 --group 1:1 --batch-size 4" in text
    assert "the measured run (1 x 1:1, 3 in flight) on such nodes: 80 images/s simulated, 76 measured (+5%)" in text


def test_options_replace_what_the_report_says() -> None:
    slower = plan(PlanOptions(cores=2, target_s=0.5), REPORT)
    assert "the target 0.5 s" in slower
    assert "800 images" in slower


def _with(**changes: Any) -> dict[str, Any]:
    return REPORT | {"phases": REPORT["phases"] | changes}


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda: plan(PlanOptions(cores=2), None), "a plan needs measured phase times: give --report"),
        (
            lambda: plan(PlanOptions(), REPORT),
            "runs nothing at 1 thread.s. per process: give --gpus-per-node, or --cores",
        ),
        (lambda: plan(PlanOptions(cores=2), {"phases": {}}), "holds no phase times"),
        (lambda: plan(PlanOptions(cores=2), _with(group=None) | {"phases": {"target_s": 1.0}}), "are not whole"),
        (lambda: plan(PlanOptions(cores=2, group="2:1"), REPORT), "--group must be one of shared, 1:1"),
        (lambda: plan(PlanOptions(gpus_per_node=2, group="1:3"), REPORT), "is large enough for --group 1:3"),
        (lambda: plan(PlanOptions(cores=2, target_s=0.0), REPORT), "--target-s must be above 0, got 0.0"),
        (lambda: plan(PlanOptions(cores=2, put_s=-1.0), REPORT), "--put-s must be 0 or more seconds, got -1.0"),
        (lambda: plan(PlanOptions(cores=2, target_s=1.0), None), "--prompts must be 1 or more, got 0"),
        (lambda: plan(PlanOptions(cores=2, in_flight=0), REPORT), "--in-flight must be 1 or more, got 0"),
        (lambda: plan(PlanOptions(cores=2, nodes=0), REPORT), "--nodes must be 1 or more, got 0"),
    ],
)
def test_what_cannot_be_planned_is_told(attempt: Callable[[], str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        attempt()

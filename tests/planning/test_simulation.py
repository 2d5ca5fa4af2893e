"""The model of a run against what can be worked out by hand."""

import dataclasses

import pytest

from mulo_ray.planning.cluster import LAYOUTS, Cluster
from mulo_ray.planning.phases import Phases
from mulo_ray.planning.simulation import Outcome, Setup, simulate


def run(
    phases: Phases, group: str = "1:1", *, groups: int = 1, in_flight: int = 3, cores: int = 64, n: int = 400, **more
) -> Outcome:
    setup = Setup(
        phases=phases,
        cluster=Cluster(cores=cores),
        layout=LAYOUTS[group],
        groups=groups,
        in_flight=in_flight,
        micro_batches=n,
        hand_over_s=0.0,
    )
    return simulate(dataclasses.replace(setup, **more))


def test_an_ideal_pipeline_takes_one_phase_per_micro_batch() -> None:
    """Twenty micro-batches of 50 + 50 ms: 21 phases. One in flight: 40."""
    phases = Phases(drafter_s=0.05, target_s=0.05, batch_size=4)
    assert run(phases, n=20).seconds == pytest.approx(21 * 0.05)
    assert run(phases, n=20, in_flight=1).seconds == pytest.approx(40 * 0.05)
    assert run(phases).images_per_s == pytest.approx(4 / 0.05, rel=0.01)


@pytest.mark.parametrize(("group", "rate"), [("1:1", 1 / 3), ("1:2", 2 / 3), ("1:3", 1.0), ("shared", 1 / 4)])
def test_targets_behind_one_drafter(group: str, rate: float) -> None:
    """Drafting takes 1 s, the target 3 s: a third target is the last that helps."""
    outcome = run(Phases(drafter_s=1.0, target_s=3.0, batch_size=1), group)
    assert outcome.images_per_s == pytest.approx(rate, rel=0.02)


def test_cores_are_shared_and_then_they_are_the_bottleneck() -> None:
    """Two 1:1 groups on two cores do what two busy cores can: 2 / (1 + 1) micro-batches a second."""
    phases = Phases(drafter_s=1.0, target_s=1.0, batch_size=1)
    assert run(phases, groups=2, cores=4).images_per_s == pytest.approx(2.0, rel=0.02)
    crowded = run(phases, groups=2, cores=2)
    assert crowded.images_per_s == pytest.approx(1.0, rel=0.02)
    assert crowded.bottleneck == "cores"


@pytest.mark.parametrize("group", ["shared", "1:1", "1:2", "1:3"])
@pytest.mark.parametrize("nodes", [1, 40])
def test_no_shape_does_more_than_the_cores_can(group: str, nodes: int) -> None:
    """Work that was half done when counting began would favour shapes that hold much of it."""
    phases = Phases(drafter_s=0.7, target_s=1.5, render_s=0.2, batch_size=1)
    cluster = Cluster(nodes=nodes, cores=2)
    rate = run(phases, group, cluster=cluster, groups=nodes * (2 if group == "shared" else 1), in_flight=5).images_per_s
    most = nodes * 2 / (0.7 + 1.5 + 0.2)
    assert rate <= 1.02 * most
    assert group == "1:1" or rate == pytest.approx(most, rel=0.02)


def test_a_store_at_its_limit_is_named() -> None:
    outcome = run(Phases(target_s=0.1, batch_size=8), "1", groups=4, store_puts_per_s=40.0)
    assert outcome.images_per_s == pytest.approx(40, rel=0.02)
    assert outcome.bottleneck == "store"


def test_slow_puts_hold_up_one_writer() -> None:
    """One writer for one group, eight puts at once: a second per micro-batch of eight, however fast the target."""
    outcome = run(Phases(target_s=0.1, put_s=1.0, batch_size=8), "1")
    assert outcome.images_per_s == pytest.approx(8.0, rel=0.02)
    assert outcome.bottleneck == "writers"


def test_many_groups_are_simulated_as_few() -> None:
    """Proportions hold: 256 groups are eight times 32, in a fraction of a second."""
    phases = Phases(drafter_s=0.5, target_s=0.5, batch_size=4)
    few, many = (run(phases, groups=n, cluster=Cluster(nodes=n, cores=2), n=10_000 * n) for n in (32, 256))
    assert many.images_per_s == pytest.approx(8 * few.images_per_s, rel=0.01)
    assert many.seconds == pytest.approx(few.seconds, rel=0.01)
    assert few.images_per_s == pytest.approx(32 * 4 / 0.5, rel=0.02)


def test_hand_overs_hide_behind_other_work() -> None:
    """Four cycles of 100 ms a side and hand-overs of 50 ms: a whole cost alone, a small one with six in flight."""
    phases = Phases(drafter_s=0.4, target_s=0.4, batch_size=1, cycles=4)
    alone = run(phases, in_flight=1, n=50, hand_over_s=0.05)
    assert alone.seconds == pytest.approx(50 * (0.8 + 8 * 0.05), rel=0.01)
    assert run(phases, in_flight=6, hand_over_s=0.05).images_per_s > 0.97 / 0.4

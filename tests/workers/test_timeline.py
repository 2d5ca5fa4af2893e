"""Laps of a role, and the lanes and medians that are made of them."""

import time
from typing import Any

import pytest

from mulo_ray.workers.role_clock import RoleClock
from mulo_ray.workers.timeline import BINS, SAMPLES, Sample, Timeline


def test_a_gap_counts_as_waiting_only_while_work_is_open() -> None:
    clock = RoleClock()
    with clock.busy(0):
        time.sleep(0.02)
    time.sleep(0.03)
    with clock.busy(0):
        time.sleep(0.01)
    assert clock.close(0) == pytest.approx(0.03, abs=0.02)
    time.sleep(0.03)
    with clock.busy(1):
        pass
    (s0, e0, w0), (s1, e1, w1), (_, _, w2) = clock.laps()
    assert clock.laps() == []
    assert (w0, w2) == (0.0, 0.0)
    assert w1 == pytest.approx(s1 - e0, abs=1e-4)
    assert w1 >= 0.03
    assert abs(s0 - time.time()) < 5
    assert e1 > s1 > e0 > s0


def test_a_slot_that_failed_leaves_no_open_work() -> None:
    clock = RoleClock()
    with pytest.raises(ValueError, match="bad"), clock.busy(0):
        raise ValueError("bad")
    clock.close(0)
    with clock.busy(1):
        pass
    assert [lap[2] for lap in clock.laps()] == [0.0, 0.0]


def timing(group: str, start: float, work_s: float, waited: float = 0.0, **fields: Any) -> dict[str, Any]:
    lane = {"role": "target", "device": "CPU of here", "laps": [[start, start + work_s, waited]]}
    base = {"group": group, "finished": start + work_s, "images": 4, "lanes": [lane], "seconds": {"target_s": work_s}}
    return base | fields


def test_shares_add_up_and_the_run_may_outgrow_its_bins() -> None:
    """Ten minutes of 6 s micro-batches, 3 s apart, half of the pause with work open: 60, 15 and 25 %."""
    timeline = Timeline()
    origin = time.time()
    for n in range(60):
        timeline.add(timing("a", origin + 10 * n, 6.0, 1.5 if n else 0.0))
        timeline.add_put(0.02)
    told = timeline.lanes()
    [lane] = told["lanes"]
    assert lane["label"] == "group 1 target"
    assert told["seconds"] == pytest.approx(596, abs=0.1)
    assert lane["busy_share"] == pytest.approx(0.604, abs=0.002)
    assert lane["wait_share"] == pytest.approx(0.1485, abs=0.002)
    assert lane["busy_share"] + lane["wait_share"] + lane["idle_share"] == pytest.approx(1, abs=1e-3)
    assert len(lane["busy"]) <= BINS
    assert sum(lane["busy"]) * told["bin_s"] == pytest.approx(360, rel=0.02)
    phases = timeline.phases()
    assert phases["images_per_s"] == pytest.approx(0.4, rel=0.01)
    assert (phases["target_s"], phases["drafter_s"], phases["put_s"]) == (pytest.approx(6, abs=1e-4), None, 0.02)
    assert phases["micro_batches"] == 60


def test_lanes_are_numbered_by_group() -> None:
    timeline = Timeline()
    now = time.time()
    for n in range(11):
        timeline.add(timing(f"actor {n}", now + n, 0.5))
    assert [lane["label"] for lane in timeline.lanes()["lanes"]] == [f"group {n} target" for n in range(1, 12)]
    assert Timeline().lanes()["lanes"] == []
    assert Timeline().phases()["images_per_s"] is None


def test_a_long_stream_is_thinned_evenly() -> None:
    sample = Sample()
    for n in range(10 * SAMPLES):
        sample.add(float(n))
    assert sample.median() == pytest.approx(5 * SAMPLES, rel=0.05)
    assert len(sample._values) < SAMPLES

"""What a run exports, as Ray's agent tells it to a Prometheus."""

import re
import time
import urllib.request
from collections.abc import Callable

import pytest
import stub_roles

from mulo_ray.seeding import image_seed
from mulo_ray.workers.metrics import COUNTERS, GAUGES
from mulo_ray.workers.placement import Placement
from mulo_ray.workers.roles import Item, Roles
from mulo_ray.workers.shapes import GroupShape

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.timeout(180)]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def exported(run: str) -> Samples:
    """(name without `ray_`, our tags) -> value, of one Ray job."""
    import ray

    [node] = [one for one in ray.nodes() if one["Alive"]]
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    samples: Samples = {}
    for name, labels, value in re.findall(r"^ray_(mulo_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        tags = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if tags["run"] == run:
            ours = frozenset((key, tags[key]) for key in (COUNTERS | GAUGES)[name][1])
            samples[name, ours] = samples.get((name, ours), 0.0) + float(value)
    return samples


def until(seen: Callable[[Samples], bool], run: str) -> Samples:
    deadline = time.monotonic() + 60
    while not seen(samples := exported(run)):
        assert time.monotonic() < deadline, samples
        time.sleep(0.5)
    return samples


def test_a_prometheus_sees_what_a_run_does() -> None:
    """Two images fail of ten: counts, costs, busy seconds and what is left are the run's, each row once."""
    import ray

    from mulo_ray.workers.stage import run_stage

    run = ray.get_runtime_context().get_job_id()
    before = exported(run)
    roles = Roles(target=stub_roles.make_target, drafter=stub_roles.make_drafter)
    texts = ["a", "refuse", "b", "c", "boom", "d", "e", "f", "g", "h"]
    items = [Item(key=f"k{n}", sample=0, text=text, seed=image_seed(7, f"k{n}", 0)) for n, text in enumerate(texts)]
    blocks = [(start, items[start : start + 4]) for start in range(0, 10, 4)]
    shape = GroupShape(device="cpu", roles=2, num_cpus=0.5, num_gpus=0)
    placement = Placement(shape=shape, groups=1, max_groups=1)
    for _ in run_stage(blocks, roles, placement, lambda key, sample, data: key, in_flight=2):
        pass

    def grown(samples: Samples, name: str, **tags: str) -> float:
        key = name, frozenset(tags.items())
        return samples.get(key, 0.0) - before.get(key, 0.0)

    samples = until(lambda found: grown(found, "mulo_images_total", status="ok") == 8, run)
    assert grown(samples, "mulo_images_total", status="failed") == 2
    assert grown(samples, "mulo_forwards_total", role="target") == 8 * stub_roles.ROUNDS
    assert grown(samples, "mulo_forwards_total", role="drafter") == 8 * stub_roles.ROUNDS
    assert grown(samples, "mulo_phase_seconds_total", phase="put") > 0
    assert samples["mulo_images_left", frozenset()] == 0
    busy = [tags for name, tags in samples.keys() - before.keys() if name == "mulo_device_busy_seconds_total"]
    assert {dict(tags)["role"] for tags in busy} == {"drafter", "target"}

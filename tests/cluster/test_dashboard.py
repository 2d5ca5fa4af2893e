"""The Grafana dashboard asks for metrics that a run exports, by tags that they have; each metric has a panel."""

import json
import re
from pathlib import Path

import pytest

from mulo_ray.workers.metrics import COUNTERS, GAUGES

BOARD = json.loads((Path(__file__).parents[2] / "cluster" / "grafana-dashboard.json").read_text(encoding="utf-8"))
METRICS = {"ray_" + name: {*tags, "run"} for name, (_, tags) in (COUNTERS | GAUGES).items()}
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def faults(expression: str) -> list[str]:
    """What a query asks for that no run exports."""
    names = set(re.findall(r"\bray_mulo_\w+", expression))
    wrong = sorted(names - set(METRICS))
    for name, selector in re.findall(r"\b(ray_mulo_\w+)\{([^}]*)\}", expression):
        wrong += [f"{name}: {tag}" for tag in re.findall(r"(\w+)=", selector) if tag not in METRICS.get(name, ())]
    for tags, name in re.findall(r"by \(([^)]*)\) \((?:rate\()?(ray_mulo_\w+)", expression):
        wrong += [f"{name}: {tag}" for tag in re.split(r",\s*", tags) if tag not in METRICS.get(name, ())]
    return wrong


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_finds_its_metric(expression: str) -> None:
    assert "ray_mulo_" in expression
    assert faults(expression) == []


def test_every_metric_is_shown_and_counters_by_their_rate() -> None:
    shown = {name for expression in EXPRESSIONS for name in re.findall(r"\bray_mulo_\w+", expression)}
    assert shown == set(METRICS)
    gauges = "|".join("ray_" + name for name in GAUGES)
    assert not [expression for expression in EXPRESSIONS if re.search(rf"rate\(({gauges})", expression)]


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


@pytest.mark.parametrize(
    "wrong",
    [
        "sum by (run) (rate(ray_mulo_pictures_total[5m]))",
        "sum by (device) (rate(ray_mulo_images_total[5m]))",
        'ray_mulo_images_total{verdict="ok"}',
    ],
)
def test_a_wrong_query_is_caught(wrong: str) -> None:
    assert faults(wrong)

"""cluster/ray-up-aws.yaml fits Ray's own schema and starts heads and workers as `ray up` needs them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
ray_autoscaler = pytest.importorskip("ray.autoscaler", reason="needs ray")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "cluster" / "ray-up-aws.yaml").read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    path = Path(ray_autoscaler.__file__).with_name("ray-schema.json")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_fits_rays_schema(document: dict[str, Any], schema: dict[str, Any]) -> None:
    jsonschema.validate(document, schema)


@pytest.mark.parametrize("spoil", [{"max_worker": 2}, {"max_workers": "8"}, {"docker": {"images": "x"}}])
def test_a_mistake_is_rejected(document: dict[str, Any], schema: dict[str, Any], spoil: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | spoil, schema)


def test_head_takes_no_work_and_workers_find_it(document: dict[str, Any]) -> None:
    types = document["available_node_types"]
    assert types[document["head_node_type"]]["resources"]["CPU"] == 0
    assert any("--num-cpus=0" in command for command in document["head_start_ray_commands"])
    assert any("--autoscaling-config" in command for command in document["head_start_ray_commands"])
    assert any("$RAY_HEAD_IP" in command for command in document["worker_start_ray_commands"])
    assert max(kind.get("max_workers", 0) for kind in types.values()) <= document["max_workers"]


def test_versions_agree_with_the_project(document: dict[str, Any]) -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    ray_version = next(line.partition("==")[2] for line in constraints if line.startswith("ray=="))
    assert f":{ray_version}-" in document["docker"]["image"]
    for name in ("rayjob.yaml", "raycluster.yaml"):
        assert f'rayVersion: "{ray_version}"' in (ROOT / "cluster" / name).read_text(encoding="utf-8")
    assert f"RAY_VERSION={ray_version}" in (ROOT / "cluster" / "Dockerfile").read_text(encoding="utf-8")

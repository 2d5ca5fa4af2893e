"""The KubeRay files fit the CRDs of KubeRay 1.7 and the operator's rules that no CRD carries."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from strict_schema import crd_validator, faults

ROOT = Path(__file__).parents[2]
CRDS = ROOT.parent / "shared" / "crds"
JOB, CLUSTER = ROOT / "cluster" / "rayjob.yaml", ROOT / "cluster" / "raycluster.yaml"
needs_crds = pytest.mark.skipif(not CRDS.is_dir(), reason=f"the CRDs of KubeRay are not at {CRDS}")


@pytest.fixture(scope="module")
def job_schema() -> jsonschema.Draft7Validator:
    return crd_validator(CRDS / "ray.io_rayjobs.yaml")


@pytest.fixture(scope="module")
def cluster_schema() -> jsonschema.Draft7Validator:
    return crd_validator(CRDS / "ray.io_rayclusters.yaml")


def _load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def _cluster_spec(path: Path) -> dict[str, Any]:
    spec = _load(path)["spec"]
    return spec.get("rayClusterSpec", spec)


@needs_crds
def test_rayjob_fits_its_crd(job_schema: jsonschema.Draft7Validator) -> None:
    assert faults(job_schema, _load(JOB)) == []


@needs_crds
def test_raycluster_fits_its_crd(cluster_schema: jsonschema.Draft7Validator) -> None:
    assert faults(cluster_schema, _load(CLUSTER)) == []


def _misspell(spec: dict[str, Any]) -> None:
    spec["shutdownAfterJobFinish"] = spec.pop("shutdownAfterJobFinishes")


def _quote(spec: dict[str, Any]) -> None:
    spec["backoffLimit"] = "2"


def _unknown_version(spec: dict[str, Any]) -> None:
    spec["rayClusterSpec"]["autoscalerOptions"]["version"] = "v3"


def _misspell_deep_inside(spec: dict[str, Any]) -> None:
    spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelectors"] = {}


@needs_crds
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_misspell, "shutdownAfterJobFinish"),
        (_quote, "backoffLimit"),
        (_unknown_version, "v3"),
        (_misspell_deep_inside, "nodeSelectors"),
    ],
)
def test_a_mistake_is_rejected(
    job_schema: jsonschema.Draft7Validator, spoil: Callable[[dict[str, Any]], None], said: str
) -> None:
    document = copy.deepcopy(_load(JOB))
    spoil(document["spec"])
    found = faults(job_schema, document)
    assert len(found) == 1
    assert said in found[0]


def test_rayjob_obeys_the_operator() -> None:
    """Rules of the operator's own validation, not of the CRD."""
    spec = _load(JOB)["spec"]
    assert not spec.get("suspend") or spec["shutdownAfterJobFinishes"]
    assert "backoffLimit" in spec, "docs/reports.md D7: three submissions by default; say how many"
    assert "clusterSelector" not in spec, "incompatible with backoffLimit"
    assert spec["submissionMode"] == "HTTPMode", "the other modes can kill a running job when its log stream ends"
    assert "submitterPodTemplate" not in spec
    assert "submitterConfig" not in spec, "HTTPMode has no submitter"
    assert "enableK8sTokenAuth" not in spec["rayClusterSpec"].get("authOptions", {}), "unsupported for RayJob"
    assert yaml.safe_load(spec["runtimeEnvYAML"]).get("working_dir", "s3://").startswith(("s3://", "https://", "gs://"))


@pytest.mark.parametrize("path", [JOB, CLUSTER], ids=lambda p: p.name)
def test_cluster_spec_obeys_the_operator(path: Path) -> None:
    spec = _cluster_spec(path)
    groups = spec["workerGroupSpecs"]
    templates = [spec["headGroupSpec"]["template"], *(group["template"] for group in groups)]
    if spec["autoscalerOptions"]["version"] == "v2":
        assert all(template["spec"].get("restartPolicy", "Never") == "Never" for template in templates)
        containers = [one for template in templates for one in template["spec"]["containers"]]
        names = [variable["name"] for one in containers for variable in one.get("env", [])]
        assert "RAY_enable_autoscaler_v2" not in names
    if spec["authOptions"]["mode"] == "token":
        assert tuple(map(int, spec["rayVersion"].split(".")[:2])) >= (2, 52)
    for group in groups:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert "labels" not in group["rayStartParams"]


@pytest.mark.parametrize("path", [JOB, CLUSTER], ids=lambda p: p.name)
def test_pods_hold_whole_groups(path: Path) -> None:
    """A drafter and a target of one group sit in one pod, with CPUs beside them and memory for the object store."""
    spec = _cluster_spec(path)
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    for group in spec["workerGroupSpecs"]:
        pod = group["template"]["spec"]
        limits = pod["containers"][0]["resources"]["limits"]
        assert int(limits["nvidia.com/gpu"]) % 2 == 0
        assert int(limits["cpu"]) >= 2
        assert {"name": "shared-memory", "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]
        assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"


def test_the_job_waits_for_gpus_and_writes_to_a_uri() -> None:
    words = _load(JOB)["spec"]["entrypoint"].split()
    assert words[words.index("--device") + 1] == "auto"
    assert float(words[words.index("--wait-for-gpus") + 1]) >= 600
    assert words[words.index("--output") + 1].startswith("s3://")
    assert words[1].startswith("/opt/mulo_ray/")
    assert "WORKDIR /opt/mulo_ray" in (ROOT / "cluster" / "Dockerfile").read_text(encoding="utf-8")

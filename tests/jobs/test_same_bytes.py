"""One job, run in every way there is: the image bytes stay the same (docs/architecture.md, Decisions)."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mulo_ray.storage import Ledger, Store, object_name

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from ray_head import ray_environment, ray_head  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240, func_only=True)]
JOB = ("jobs/coco5k.py", "--limit", "8", "--drafter-px", "32", "--target-px", "64", "--temperature", "2")
"""At temperatures of 1 and less a scale that knows its pictures by heart may draw two samples alike."""
Images = dict[str, bytes]


def job(output: str, *options: str) -> Images:
    """Run the recipe in a process of its own; its images by object name."""
    command = [sys.executable, *JOB, "--output", output, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=230)
    assert done.returncode == 0, done.stderr[-3000:]
    return images(output)


def images(output: str) -> Images:
    store = Store(output)
    return {name: store.get(name) for name in store.list("images")}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Images:
    """Eight pictures by one group, micro-batches of the default size; all different."""
    made = job(str(tmp_path_factory.mktemp("reference") / "out"))
    assert len(made) == len(set(made.values())) == 8
    return made


def test_groups_batches_and_pipelining_change_nothing(reference: Images, tmp_path: Path) -> None:
    """docs/reports.md B3, D2: two groups, batches of three (the last is smaller), no overlap."""
    options = ("--groups", "2", "--batch-size", "3", "--in-flight", "1")
    assert job(str(tmp_path / "out"), *options) == reference


@pytest.mark.parametrize("group", ["1:2", "shared"])
def test_the_shape_of_the_group_changes_nothing(reference: Images, tmp_path: Path, group: str) -> None:
    """Two targets behind one drafter, or both roles in one process; and the report tells what each device did."""
    assert job(str(tmp_path / "out"), "--group", group, "--batch-size", "2") == reference
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (told["phases"]["group"], told["phases"]["micro_batches"]) == (group, 4)
    assert all(0 < lane["busy_share"] <= 1 for lane in told["timeline"]["lanes"])
    assert "Devices over time" in (tmp_path / "out" / "report.html").read_text()


def test_an_object_store_holds_the_same(reference: Images, s3_uri: str) -> None:
    """reports C7: also the names; and the ledger tells where each lies."""
    assert job(s3_uri) == reference
    rows = Ledger(Store(s3_uri)).rows()
    assert {row.uri for row in rows.values()} == {f"{s3_uri}/{name}" for name in reference}


def test_another_sample_leaves_the_first_alone(reference: Images, tmp_path: Path) -> None:
    """reports B3: sixteen pictures in other company, eight of them those of before, all different."""
    made = job(str(tmp_path / "out"), "--samples-per-prompt", "2", "--device", "cpu")
    rows = Ledger(Store(str(tmp_path / "out"))).rows()
    assert len(made) == len(set(made.values())) == 16
    assert {object_name(*pair): made[object_name(*pair)] for pair in rows if pair[1] == 0} == reference


def test_a_run_that_depends_on_its_batches_says_so(tmp_path: Path) -> None:
    """reports D9: --no-batch-invariant runs, and run.json and both reports tell what it gives up."""
    out = tmp_path / "out"
    assert len(job(str(out), "--no-batch-invariant", "--batch-size", "4")) == 8
    run = json.loads((out / "run.json").read_text())
    assert (run["pixels"]["batch_invariant"], run["pixels"]["batch_size"]) == (False, 4)
    assert "Batch-invariant: no. The same bytes come back only from the same micro-batches (batch size 4" in (
        (out / "report.html").read_text()
    )
    assert json.loads((out / "report.json").read_text())["made"] == 8


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Ray's socket names hold the path."""
    with tempfile.TemporaryDirectory(prefix="mr", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


def test_a_submitted_job_that_writes_to_an_object_store_makes_the_same(
    reference: Images, s3_server: dict[str, Any], short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """reports D10, D11: `ray job submit` with the shipped runtime environment; credentials travel in it alone."""
    output = f"s3://{s3_server['bucket']}/{short_folder.name}"
    shipped = yaml.safe_load((ROOT / "cluster" / "runtime_env.yaml").read_text(encoding="utf-8"))
    del shipped["pip"]  # no network here: the head's own libraries do
    runtime = shipped | {"env_vars": shipped["env_vars"] | s3_server["env"]}
    ray = str(Path(sys.executable).with_name("ray"))
    for name in s3_server["env"]:
        monkeypatch.delenv(name, raising=False)
    with ray_head(short_folder) as address:
        command = [ray, "job", "submit", "--address", address, "--working-dir", str(ROOT)]
        command += ["--runtime-env-json", json.dumps(runtime), "--", "python", *JOB, "--output", output]
        environment = ray_environment(short_folder)
        done = subprocess.run(command, env=environment, cwd=short_folder, capture_output=True, text=True, timeout=220)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    for name, value in s3_server["env"].items():
        monkeypatch.setenv(name, value)
    assert images(output) == reference

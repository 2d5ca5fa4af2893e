"""One local Ray for all tests of this folder: two logical CPUs, no GPU, no token left in the home directory."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_BACKEND_LOG_LEVEL="fatal")
os.environ.setdefault("RAY_worker_niceness", "0")  # as in a run of ours
os.environ.setdefault("RAY_metrics_report_interval_ms", "2000")  # by default ten seconds
os.environ.pop("RAY_ADDRESS", None)


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    import ray

    temp = tempfile.mkdtemp(prefix="mr", dir="/tmp")  # short: socket paths end at 107 bytes
    roots = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        roots
    )  # inherited by every worker, so that Ray can start them ahead of need
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        _temp_dir=temp,
        logging_level="error",
        log_to_driver=False,
    )
    os.environ["PYTHONPATH"] = before or ""
    yield
    ray.shutdown()
    shutil.rmtree(temp, ignore_errors=True)

"""One Ray for one run: the cluster we are in, or a quiet local one that leaves nothing behind. Knows no model."""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulo_ray.workers.placement import GroupShape, Node

OBJECT_STORE_BYTES = 256 * 2**20
"""Drafts and finished files are all that a local store ever holds."""


def in_ray_job() -> bool:
    """True under `ray job submit`: the working directory is then a copy that is deleted with the job."""
    return "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ


@contextmanager
def session(*, verbose: bool = False) -> Iterator[None]:
    """Ray for the body: one that is connected already (and is left alone), that of RAY_ADDRESS, or a local one."""
    quiet = logging.INFO if verbose else logging.ERROR
    logging.getLogger("ray").setLevel(quiet)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not verbose:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data  # sets its own log level on import

    # What ends a dataset reaches the user as our own sentence; Ray Data would print its whole configuration first.
    logging.getLogger("ray.data").setLevel(logging.INFO if verbose else logging.CRITICAL)
    if ray.is_initialized():
        yield
        return
    if os.environ.get("RAY_ADDRESS"):
        ray.init(logging_level=quiet, log_to_driver=verbose)
        try:
            yield
        finally:
            ray.shutdown()
        return
    temp = tempfile.mkdtemp(
        prefix="mulo", dir="/tmp" if os.path.isdir("/tmp") else None
    )  # socket paths must stay short
    # Ray's own default makes workers the least of all processes, which starves them on a busy machine.
    niceness = os.environ.get("RAY_worker_niceness", "0")
    with _environment(RAY_AUTH_MODE="disabled", PYTHONPATH=_importable(), RAY_worker_niceness=niceness):
        try:
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=quiet,
                log_to_driver=verbose,
                _temp_dir=temp,
            )
            yield
        finally:
            ray.shutdown()
            _remove(temp)


def _remove(folder: str) -> None:
    """Ray's last processes may still write a log line while their folder goes."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.1)


def live_nodes() -> list[Node]:
    """What each live node holds in all."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node["Resources"] for node in nodes if node["Alive"]]


def request_groups(shape: GroupShape, groups: int) -> None:
    """Tell the cluster's autoscaler, if there is one, what the waiting run needs."""
    from ray.autoscaler.sdk import request_resources

    bundle: dict[str, Any] = {"GPU": int(shape.num_gpus)} if shape.num_gpus else {"CPU": shape.num_cpus}
    request_resources(bundles=[bundle] * groups)


def _importable() -> str:
    """PYTHONPATH with which workers import this very package, installed or not."""
    root = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Variables that a local Ray and its workers inherit, taken back at the end."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)

"""One Ray for one run: the cluster we are in, or a quiet local one that leaves nothing behind. Knows no model."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulo_ray.errors import RunError
from mulo_ray.workers.ray_folder import RayFolder
from mulo_ray.workers.shapes import GroupShape, Node

OBJECT_STORE_BYTES = 256 * 2**20
"""Drafts and finished files are all that a local store ever holds."""
STARTS = 2
"""Tries at starting a local Ray, which on a busy machine gives up waiting for its own servers now and then."""


def in_ray_job() -> bool:
    """True under `ray job submit`: the working directory is then a copy that is deleted with the job."""
    return "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ


@contextmanager
def session(*, verbose: bool = False, logical_gpus: int | None = None) -> Iterator[None]:
    """Ray for the body: one that is connected already (and is left alone), that of RAY_ADDRESS, or a local one.

    `logical_gpus` is how many a local one counts, whatever the machine has: for measurements without models.
    """
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
    if address := os.environ.get("RAY_ADDRESS"):
        try:
            ray.init(logging_level=quiet, log_to_driver=verbose)
        except Exception as error:  # of many classes
            raise RunError(
                f"no Ray cluster answers at RAY_ADDRESS={address} ({_first_line(error)}): start it, correct the "
                "address, or unset RAY_ADDRESS to run on this machine"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()
        return
    # Ray's own default makes workers the least of all processes, which starves them on a busy machine.
    niceness = os.environ.get("RAY_worker_niceness", "0")
    with _environment(RAY_AUTH_MODE="disabled", PYTHONPATH=_importable(), RAY_worker_niceness=niceness):
        folder = _start_local(quiet, verbose, logical_gpus)
        try:
            yield
        finally:
            ray.shutdown()
            folder.remove()


def _start_local(logging_level: int, log_to_driver: bool, num_gpus: int | None) -> RayFolder:
    """A Ray of our own, and its folder. A start that fails is cleaned up and tried once more; RunError after that."""
    import ray

    for left in reversed(range(STARTS)):
        folder = RayFolder()
        try:
            ray.init(
                address="local",
                num_gpus=num_gpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging_level,
                log_to_driver=log_to_driver,
                _temp_dir=folder.path,
            )
            return folder
        except BaseException as error:
            ray.shutdown()
            folder.remove()
            if not isinstance(error, Exception):
                raise
            if not left:
                raise RunError(
                    f"Ray did not start on this machine, tried {STARTS} times ({_first_line(error)}): wait until it "
                    "has processor time and memory to spare, or name a running cluster in RAY_ADDRESS"
                ) from error
    raise AssertionError("the last try returns or raises")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".: ")


def live_nodes() -> list[Node]:
    """What each live node holds in all."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node["Resources"] for node in nodes if node["Alive"]]


def request_groups(shape: GroupShape, groups: int) -> None:
    """Tell the cluster's autoscaler, if there is one, what the waiting run needs."""
    from ray.autoscaler.sdk import request_resources

    whole: dict[str, Any] = {"GPU": int(shape.num_gpus)} if shape.num_gpus else {"CPU": shape.num_cpus}
    bundles = [{"GPU": 1}] * shape.processes if shape.spread else [whole]
    text = [{"GPU": 1}] if shape.text_gpus else []
    request_resources(bundles=bundles * groups + text)


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

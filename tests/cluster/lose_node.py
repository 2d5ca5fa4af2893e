"""Run by test_lost_node.py on a Ray of three nodes of its own; argv: a folder; prints JSON about two submitted jobs."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STUB_JOB = ROOT / "tests" / "jobs" / "stub_job.py"
STORE_BYTES = 80 * 2**20
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests" / "workers"), str(ROOT)])
os.environ.pop("RAY_ADDRESS", None)


def submit(client: Any, captions: Path, out: Path, sleep_s: float) -> str:
    options = f"--captions-file {captions} --output {out} --batch-size 2 --device cpu --in-flight 2"
    # The address in so many words: a job asks Ray for "the" cluster of its machine, and tests may run several there.
    entrypoint = f"env RAY_ADDRESS={cluster.address} {sys.executable} {STUB_JOB} {options}"
    variables = {"STUB_SLEEP_S": str(sleep_s)}
    deadline = time.monotonic() + 60
    while True:
        try:
            job: str = client.submit_job(entrypoint=entrypoint, runtime_env={"env_vars": variables})
            return job
        except RuntimeError as error:  # the head's agent comes up after its dashboard
            if "No available agent" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(1)


def ended(client: Any, job: str) -> str:
    deadline = time.monotonic() + 240
    while (status := client.get_job_status(job)) not in ENDED:
        assert time.monotonic() < deadline, client.get_job_logs(job)
        time.sleep(0.3)
    return str(status.value)


def lose_node(client: Any, job: str, images: Path, node: Any) -> bool:
    """Take the node away when some images are there; False where the job was over before."""
    deadline = time.monotonic() + 200
    while len(list(images.glob("*.png"))) < 4:
        if client.get_job_status(job) in ENDED or time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)
    return client.get_job_status(job) not in ENDED


def left(address: str) -> dict[str, list[str]]:
    """Live actors of the jobs, and placement groups."""
    import ray
    from ray.util.placement_group import placement_group_table
    from ray.util.state import list_actors

    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    ours = ("DrafterActor", "TargetActor", "Attempts", "MapWorker")
    deadline = time.monotonic() + 30
    while True:
        names = [actor.class_name for actor in list_actors(address, filters=[("state", "=", "ALIVE")])]
        actors = [name for name in names if name.startswith(ours)]
        if not actors or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    groups = [one["state"] for one in placement_group_table().values() if one["state"] != "REMOVED"]
    return {"actors_left": actors, "placement_groups_left": groups}


def jobs(folder: Path) -> dict[str, Any]:
    from ray.job_submission import JobSubmissionClient

    node = {"num_cpus": 2, "object_store_memory": STORE_BYTES, "dashboard_agent_listen_port": 0}
    nodes = [cluster.add_node(**node) for _ in range(2)]
    cluster.wait_for_nodes()
    address = f"http://{cluster.head_node.webui_url}"
    client = JobSubmissionClient(address)
    job = submit(client, folder / "captions.txt", folder / "out", sleep_s=0.4)
    lost = lose_node(client, job, folder / "out" / "images", nodes[0])
    status = ended(client, job)
    fatal = submit(client, folder / "fatal.txt", folder / "fatal", sleep_s=0)
    return {
        "lost_while_running": lost,
        "status": status,
        "log": client.get_job_logs(job),
        "failed_status": ended(client, fatal),
        "failed_log": client.get_job_logs(fatal)[-3000:],
    } | left(address)


if __name__ == "__main__":
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="mr", dir="/tmp", ignore_cleanup_errors=True) as temp:
        # Cluster writes its address where Ray's default folder is, whether that folder is there or not.
        os.environ["RAY_TMPDIR"] = temp
        folder = Path(temp) / "ray"
        folder.mkdir()
        # The head holds the driver and no group, so that a node can be lost without the run's own process.
        head = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": True, "temp_dir": str(folder)}
        head |= {"dashboard_port": 0, "dashboard_agent_listen_port": 0}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            told = jobs(Path(sys.argv[1]))
        finally:
            import ray

            ray.shutdown()
            cluster.shutdown()
    print(json.dumps(told))

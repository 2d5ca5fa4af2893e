"""Run by test_clusters.py on a Ray of several nodes of its own; argv: "spread" or "grow", and a folder; prints JSON."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])


def put(key: str, sample: int, data: bytes) -> str:
    return key


def groups_left() -> list[str]:
    """States of placement groups that were not removed."""
    from ray.util.placement_group import placement_group_table

    return [told["state"] for told in placement_group_table().values() if told["state"] != "REMOVED"]


def spread(folder: str) -> dict[str, Any]:
    """A pair over two nodes of one GPU each; its target dies once; then a run that is abandoned."""
    import ray
    import stub_roles

    from mulo_ray.config import RunOptions
    from mulo_ray.workers.placement import preflight
    from mulo_ray.workers.roles import Item, Roles
    from mulo_ray.workers.session import live_nodes
    from mulo_ray.workers.stage import run_stage
    from mulo_ray.workers.timeline import Timeline

    for _ in range(2):
        cluster.add_node(num_cpus=1, num_gpus=1)
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    options = RunOptions(device="cuda", span_nodes=True)
    placement = preflight(options, roles=2, role_bytes=1, nodes=live_nodes, say=print)
    roles = Roles(target=stub_roles.make_target, drafter=stub_roles.make_drafter)
    texts = ["a", f"dieonce:{folder}/died", "b", "c", "d", "e"]
    blocks = [(n, [Item(key=str(n), sample=0, text=text, seed=n)]) for n, text in enumerate(texts)]
    timeline = Timeline()
    rows = [row for some in run_stage(blocks, roles, placement, put, in_flight=2, timeline=timeline) for row in some]
    after_success = groups_left()
    abandoned = run_stage(blocks[:1] + blocks[2:], roles, placement, put, in_flight=1)
    next(abandoned)
    held = len(groups_left())
    abandoned.close()
    return {
        "sentence": placement.sentence,
        "ok": sum(row.status == "ok" for row in rows),
        "retried": sum(row.attempts > 1 for row in rows),
        "lanes": sorted(lane["label"] for lane in timeline.lanes()["lanes"]),
        "after_success": after_success,
        "held": held,
        "after_close": groups_left(),
    }


def grow(folder: str) -> dict[str, Any]:
    """One group at first, whose prompts hold it until a second group works on a node that comes later."""
    import ray
    import stub_roles

    from mulo_ray.config import RunOptions
    from mulo_ray.workers.placement import preflight
    from mulo_ray.workers.roles import Item, Roles
    from mulo_ray.workers.session import live_nodes
    from mulo_ray.workers.stage import run_stage
    from mulo_ray.workers.timeline import Timeline

    cluster.add_node(num_cpus=1, num_gpus=2)
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    options = RunOptions(wait_for_gpus=1, in_flight=2)
    placement = preflight(options, roles=2, role_bytes=1, nodes=live_nodes, say=print)
    roles = Roles(target=stub_roles.make_target, drafter=stub_roles.make_drafter)
    blocks = [(n, [Item(key=str(n), sample=0, text=f"meet:{folder}", seed=n)]) for n in range(40)]
    timeline, done = Timeline(), []

    def work() -> None:
        for rows in run_stage(blocks, roles, placement, put, in_flight=2, timeline=timeline):
            done.extend(rows)

    run = threading.Thread(target=work)
    run.start()
    while run.is_alive() and not any(Path(folder).iterdir()):  # until the first target is at work
        time.sleep(0.1)
    cluster.add_node(num_cpus=1, num_gpus=2)
    run.join()
    lanes = sorted(lane["label"] for lane in timeline.lanes()["lanes"])
    return {"started": placement.groups, "done": len(done), "lanes": lanes}


if __name__ == "__main__":
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        told = {"spread": spread, "grow": grow}[sys.argv[1]](sys.argv[2])
    finally:
        import ray

        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(told))

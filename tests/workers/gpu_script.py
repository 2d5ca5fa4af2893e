"""Run by test_gpu_groups.py: two groups on the logical GPUs of a Ray of its own; argv: GPUs, folder."""

import functools
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])

if __name__ == "__main__":
    import tempfile

    import ray
    import stub_roles

    from mulo_ray.config import RunOptions
    from mulo_ray.workers.placement import preflight
    from mulo_ray.workers.roles import Item, Roles
    from mulo_ray.workers.session import live_nodes
    from mulo_ray.workers.stage import run_stage

    gpus, folder = int(sys.argv[1]), sys.argv[2]
    options = {"include_dashboard": False, "logging_level": "error", "log_to_driver": False}
    temp = tempfile.mkdtemp(prefix="mg", dir="/tmp")
    ray.init(address="local", num_cpus=2, num_gpus=gpus, object_store_memory=100 * 2**20, _temp_dir=temp, **options)
    roles = Roles(
        target=functools.partial(stub_roles.make_target_noting_its_device, folder=folder),
        drafter=functools.partial(stub_roles.make_drafter_noting_its_device, folder=folder),
    )
    placement = preflight(RunOptions(), roles=2, role_bytes=1, nodes=live_nodes, say=print)
    blocks = [(n, [Item(key=str(n), sample=0, text="x", seed=n)]) for n in range(6)]

    def put(key: str, sample: int, data: bytes) -> str:
        return key

    rows = [row for some in run_stage(blocks, roles, placement, put, in_flight=2) for row in some]
    print(placement.sentence)
    print(len(rows), {row.status for row in rows})
    ray.shutdown()

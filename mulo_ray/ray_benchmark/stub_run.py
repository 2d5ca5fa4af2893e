"""A stage over stub roles in a Ray of its own: how close it comes to what the phase times allow."""

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from mulo_ray.config import GroupName, RunOptions
from mulo_ray.workers.blocks import block_table, read_outcomes
from mulo_ray.workers.placement import preflight
from mulo_ray.workers.roles import Item
from mulo_ray.workers.session import live_nodes, session
from mulo_ray.workers.shapes import GroupShape
from mulo_ray.workers.stub_roles import stub_roles
from mulo_ray.workers.timeline import Timeline

ROLE_BYTES = 100 * 2**20
"""A Python process without torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StubRun:
    """What is run: phases in seconds per micro-batch, on as many logical GPUs as the groups need."""

    drafter_s: float
    target_s: float
    micro_batches: int
    group: GroupName = "1:1"
    groups: int = 1
    batch: int = 4
    in_flight: int = 3
    rounds: int = 1
    image_bytes: int = 1000

    @property
    def options(self) -> RunOptions:
        return RunOptions(
            device="cuda", group=self.group, groups=self.groups, batch_size=self.batch, in_flight=self.in_flight
        )


class Discard:
    """A put that stores nothing."""

    def __call__(self, key: str, sample: int, data: bytes) -> str:
        return f"null://{key}-{sample}"


def measure(runs: list[StubRun]) -> list[dict[str, Any]]:
    """Every run in turn, in one Ray: {seconds from the first work to the last, images_per_s over the middle, sha256 of
    all pictures, phases, busy shares}."""
    with session(logical_gpus=max(run.groups * (1 + run.options.targets) for run in runs)):
        return [_measure(run) for run in runs]


def blocks_of(run: StubRun) -> list[tuple[int, list[Item]]]:
    return [
        (n, [Item(key=f"{n}-{k}", sample=0, text=f"stub {n} {k}", seed=n * run.batch + k) for k in range(run.batch)])
        for n in range(run.micro_batches)
    ]


def _measure(run: StubRun) -> dict[str, Any]:
    from mulo_ray.workers.stage import run_stage

    placement = preflight(run.options, roles=2, role_bytes=ROLE_BYTES, nodes=live_nodes, say=print)
    roles = stub_roles(run.drafter_s, run.target_s, rounds=run.rounds, image_bytes=run.image_bytes)
    timeline = Timeline()
    told: dict[tuple[str, int], str] = {}
    for rows in run_stage(blocks_of(run), roles, placement, Discard(), in_flight=run.in_flight, timeline=timeline):
        told |= {(row.key, row.sample): row.sha256 for row in rows}
    assert len(told) == run.micro_batches * run.batch, "every image came back"
    lanes = timeline.lanes()
    return {
        "seconds": lanes["seconds"],
        "images_per_s": timeline.phases()["images_per_s"],
        "sha256": hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest(),
        "phases": timeline.phases(),
        "busy": {lane["label"]: lane["busy_share"] for lane in lanes["lanes"]},
    }


def measure_groups(runs: list[StubRun]) -> list[dict[str, Any]]:
    """Every run in turn through one warm group that was handed all blocks: the pipeline without Ray Data before it."""
    import ray

    with session():
        answers = []
        for run in runs:
            alone: Any = ray.remote(_GroupAlone).options(num_cpus=0).remote(run)
            ray.get(alone.decode.remote(blocks_of(run)[:4]))
            answers.append(ray.get(alone.decode.remote(blocks_of(run))))
        return answers


class _GroupAlone:
    def __init__(self, run: StubRun) -> None:
        import ray

        from mulo_ray.workers.attempts import Attempts
        from mulo_ray.workers.group import Group

        targets = run.options.targets
        shape = GroupShape(device="cpu", roles=1 + targets, targets=targets, num_cpus=0, num_gpus=0)
        roles = stub_roles(run.drafter_s, run.target_s, rounds=run.rounds, image_bytes=run.image_bytes)
        attempts = ray.remote(Attempts).options(num_cpus=0).remote()
        self._group = Group(roles, shape, attempts, run.in_flight)

    async def decode(self, blocks: list[tuple[int, list[Item]]]) -> dict[str, Any]:
        tables = await asyncio.gather(*[self._group(block_table(number, items)) for number, items in blocks])
        timeline, pictures = Timeline(), []
        for table in tables:
            for row in read_outcomes(table):
                pictures.append((row["key"], hashlib.sha256(row["png"]).hexdigest()))
                if row["timing"]:
                    timeline.add(json.loads(row["timing"]))
        digest = hashlib.sha256(repr(sorted(pictures)).encode()).hexdigest()
        return {"seconds": timeline.lanes()["seconds"], "sha256": digest, "phases": timeline.phases()}

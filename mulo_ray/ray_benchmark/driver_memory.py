"""What a driver keeps per prompt: a whole run over stub groups into a store that keeps nothing, its memory watched."""

import re
import time
from pathlib import Path
from typing import Any

from mulo_ray.config import JobConfig, ModelOptions, RunOptions
from mulo_ray.engine import Engine
from mulo_ray.job import cut_blocks
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.ray_benchmark.stub_run import ROLE_BYTES, Discard
from mulo_ray.storage import plan
from mulo_ray.types import LedgerRow, Prompt, Report
from mulo_ray.work import make_images
from mulo_ray.workers.progress import Progress
from mulo_ray.workers.recorder import Recorder
from mulo_ray.workers.session import session
from mulo_ray.workers.stub_roles import stub_roles

IMAGE_BYTES = 50_000
EVERY_S = 1.0


def drive(prompts: int, batch: int, groups: int) -> dict[str, Any]:
    """One run of `prompts` prompts: {pss_mib: of the driver at most, seconds, images_per_s, spilled_mib}.

    Memory is looked at from the first row to the last: before and after, fewer processes share Ray's libraries, and the
    driver's part of them is larger.
    """
    run = RunOptions(device="cpu", batch_size=batch, groups=groups)
    config = JobConfig(model=ModelOptions(drafter_px=64, target_px=128), run=run)
    card = FamilyCard(
        name="stub",
        folder=Path("."),
        scales={64: 8, 128: 16},
        default_pair=(64, 128),
        defaults={},
        weights_fingerprint="0" * 16,
        role_bytes=ROLE_BYTES,
    )
    engine = Engine(card=card, roles=lambda _: stub_roles(0.0, 0.0, image_bytes=IMAGE_BYTES))
    captions = [
        Prompt(key=f"{n:012}", text=f"a caption of the usual length, about thing number {n}") for n in range(prompts)
    ]
    pairs = [(prompt, 0) for prompt in captions]
    blocks = cut_blocks(config, pairs, plan(pairs, {}))
    report, done = Report(), 0
    progress = Progress(total=prompts, done_before=0)
    peak_mib = looked = 0.0
    with session():
        started = time.monotonic()
        with Recorder(append=_forget, check=lambda: None, progress=progress) as recorder:
            for rows in make_images(config, engine, Discard(), blocks, report, progress.say):
                recorder.add(rows)
                done += len(rows)
                if time.monotonic() - looked >= EVERY_S:
                    peak_mib, looked = max(peak_mib, pss_mib()), time.monotonic()
        seconds = time.monotonic() - started
        spilled = spilled_mib()
    assert done == prompts, f"{done} of {prompts} images came back"
    return {
        "pss_mib": peak_mib,
        "seconds": seconds,
        "images_per_s": report.phases["images_per_s"],
        "spilled_mib": spilled,
    }


def _forget(rows: list[LedgerRow]) -> None:
    """In place of the ledger, whose files are the store's."""


def pss_mib() -> float:
    """Memory of this process, shared pages counted in part (Linux)."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def spilled_mib() -> float:
    """What the object stores of this cluster ever wrote to disk. Ray 2.60 tells it by no public call."""
    import ray
    from ray._private.internal_api import memory_summary

    here = ray.get_runtime_context().gcs_address  # other clusters may run on this machine
    found = re.search(r"Spilled (\d+) MiB", memory_summary(here, stats_only=True))  # type: ignore[no-untyped-call]
    return float(found.group(1)) if found else 0.0

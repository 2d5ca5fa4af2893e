"""The job on a tiny LlamaGen in the official containers: text side, both scales, tokenizer, through Ray."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray.config import JobConfig, ModelOptions
from mulo_ray.engine import family_engine
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed
from mulo_ray.storage import Ledger, Store, object_name
from tests.support.tiny_llamagen import FAMILY, replaced, write_tiny_llamagen

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
CAPTIONS = ["A red apple on a box!", "a cat", "two dogs <b>sitting</b> with @me", "https://a.com"]


def run_job(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "captions.txt").write_text("\n".join(CAPTIONS) + "\n")
    command = [sys.executable, str(ROOT / "jobs" / "coco5k.py"), "--family", FAMILY, "--max-failed", "1"]
    command += ["--captions-file", str(folder / "captions.txt"), "--weights", str(folder / "weights"), *options]
    return subprocess.run(command, cwd=folder, env=ENV, capture_output=True, text=True, timeout=550)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("decoder", ["mulo", "ar"])
def test_a_job_makes_what_the_plain_loop_makes(tmp_path: Path, decoder: str) -> None:
    """docs/reports.md C6, and B2 with files in half precision: through Ray in batches of two, then each alone."""
    import torch

    from mulo_ray.decoding.interfaces import generate

    torch.set_num_threads(1)
    write_tiny_llamagen(tmp_path / "weights")
    halved = torch.load(tmp_path / "weights" / "high.pt", weights_only=True)
    halved["model"] = {name: value.bfloat16() for name, value in halved["model"].items()}
    torch.save(halved, tmp_path / "weights" / "high.pt")
    done = run_job(tmp_path, "--decoder", decoder, "--batch-size", "2", "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "memory plan for micro-batches of 2, 3 in flight, networks in float32" in done.stderr
    store = Store(str(tmp_path / "out"))
    rows = Ledger(store).rows()
    by_prompt = {row.prompt: row for row in rows.values()}
    assert by_prompt[CAPTIONS[2]].prompt_used == "two dogs sitting with"
    failed = by_prompt[CAPTIONS[3]]
    assert (failed.status, failed.transient) == ("failed", False)
    assert "cleaning leaves nothing" in failed.error

    model = ModelOptions(family=FAMILY, weights=str(tmp_path / "weights"))
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["config"]["model"]["target_px"] == 16
    engine = family_engine(model)
    config = JobConfig(model=model)
    config = resolve(config.__class__(model=model, decoding=config.decoding.__class__(decoder=decoder)), engine.card)
    roles = engine.roles(config)
    target, drafter = roles.target("cpu"), roles.drafter("cpu") if roles.drafter else None
    made = {key: row for key, row in rows.items() if row.status == "ok"}
    assert len(made) == 3
    for (key, sample), row in made.items():
        request = target.request([target.prompt_used(row.prompt)], [image_seed(0, key, sample)])
        generation = generate(target.decoder, drafter.decoder if drafter else None, request)
        [png] = target.render(generation.tokens_BHW, [row.prompt])
        assert store.get(object_name(key, sample)) == png


@pytest.mark.timeout(240)
def test_files_that_do_not_fit_end_the_job_before_ray_starts(tmp_path: Path) -> None:
    """docs/reports.md B1 and A7: in seconds, with one sentence."""
    write_tiny_llamagen(tmp_path / "weights", replaced(layers=3))
    card = json.loads((tmp_path / "weights" / "family.json").read_text())
    (tmp_path / "weights" / "family.json").write_text(json.dumps(card | {"layers": 2}))
    done = run_job(tmp_path, "--output", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "low.pt does not fit the model it was named for: layers.2.attention.wqkv.weight: not part" in done.stderr
    assert "Traceback" not in done.stderr
    assert "starting Ray" not in done.stderr

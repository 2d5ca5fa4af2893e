"""The job on a tiny Tar in the official containers: language stage, both scales, tokenizer, through Ray."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from mulo_ray.config import DecoderOptions, InputOptions, JobConfig, ModelOptions, OutputOptions, RunOptions
from mulo_ray.engine import family_engine
from mulo_ray.job import run
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed
from mulo_ray.single import KEY, generate_one
from mulo_ray.storage import Ledger, Store, object_name
from tests.support.tiny_tar import FAMILY, write_tiny_tar

ROOT = Path(__file__).parents[2]
CAPTIONS = ["A red apple on a box!", "a cat", "two dogs <b>sitting</b> with <I3>", "far too long " * 20]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("decoder", ["mulo", "ar"])
def test_a_job_makes_what_the_plain_loop_makes(tmp_path: Path, decoder: Literal["mulo", "ar"]) -> None:
    """docs/reports.md C6 (nothing is cleaned here), B2 (a file in half precision), A8 (a failed row, never padding).

    Through Ray in batches of two; then each picture alone in this process.
    """
    import torch

    from mulo_ray.decoding.interfaces import generate

    torch.set_num_threads(1)
    write_tiny_tar(tmp_path / "weights")
    halved = torch.load(tmp_path / "weights" / "high.pth", weights_only=True)
    halved["model"]["sd"] = {name: value.bfloat16() for name, value in halved["model"]["sd"].items()}
    torch.save(halved, tmp_path / "weights" / "high.pth")
    (tmp_path / "captions.txt").write_text("\n".join(CAPTIONS) + "\n")
    config = JobConfig(
        input=InputOptions(captions_file=str(tmp_path / "captions.txt")),
        model=ModelOptions(family=FAMILY, weights=str(tmp_path / "weights")),
        decoding=DecoderOptions(decoder=decoder),
        run=RunOptions(device="cpu", batch_size=2, groups=1),
        output=OutputOptions(output=str(tmp_path / decoder), max_failed=1),
    )
    report = run(config)
    assert (report.made, report.failed, report.exit_code) == (3, 1, 0)
    store = Store(config.output.output)
    rows = Ledger(store).rows()
    by_prompt = {row.prompt: row for row in rows.values()}
    assert by_prompt[CAPTIONS[2]].prompt_used == CAPTIONS[2]
    [failed] = [row for row in rows.values() if row.status == "failed"]
    assert "tokens with its template, 160 are allowed" in failed.error
    assert not failed.transient

    engine = family_engine(config.model)
    roles = engine.roles(resolve(config, engine.card))
    assert roles.conditioner is not None
    conditioner, target = roles.conditioner("cpu"), roles.target("cpu")
    drafter = roles.drafter("cpu") if roles.drafter else None
    for (key, sample), row in rows.items():
        if row.status == "ok":
            seeds = [image_seed(0, key, sample)]
            payloads = conditioner.encode([conditioner.prompt_used(row.prompt)], seeds)
            request = target.request_from(payloads, seeds)
            generation = generate(target.decoder, drafter.decoder if drafter else None, request)
            [png] = target.render(generation.tokens_BHW, [row.prompt])
            assert store.get(object_name(key, sample)) == png
    assert len({row.sha256 for row in rows.values() if row.status == "ok"}) == 3


@pytest.mark.timeout(240)
def test_one_picture_without_ray(tmp_path: Path) -> None:
    """The conditioner runs in this process, and its codes are keyed by the seed of the picture."""
    write_tiny_tar(tmp_path)
    model = ModelOptions(family=FAMILY, weights=str(tmp_path))
    config = JobConfig(model=model, run=RunOptions(device="cpu"))
    png = generate_one("a red cat", config)
    assert png.startswith(b"\x89PNG")
    assert generate_one("a red cat", config) == png
    other = dataclasses.replace(config, sampling=dataclasses.replace(config.sampling, seed=1))
    assert generate_one("a red cat", other) != png
    engine = family_engine(model)
    target = engine.roles(resolve(config, engine.card)).target("cpu")
    request = target.request(["a red cat"], [image_seed(0, KEY, 0)])
    assert request.condition["features_BPC"].shape == (1, 9, 24)


@pytest.mark.timeout(120)
def test_the_embedded_family_and_the_package_load_no_transformers() -> None:
    code = (
        "import sys, mulo_ray, mulo_ray.job, mulo_ray.models.plan; from mulo_ray.models.catalog import read_card;"
        "from mulo_ray.models.family import load_family; load_family(read_card('emoji'), 'cpu');"
        "print('transformers' in sys.modules)"
    )
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

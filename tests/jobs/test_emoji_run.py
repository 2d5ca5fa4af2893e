"""The job with the classes of the embedded family, on random weights: Ray, batches and groups change no byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from random_family import write_random_family

from mulo_ray.config import JobConfig, ModelOptions
from mulo_ray.engine import IMAGE_FORMAT, family_engine
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed
from mulo_ray.storage import Ledger, Store, object_name

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def test_the_image_format_is_that_of_the_models() -> None:
    """It is part of the pixel hash, and read on a driver without torch."""
    from mulo_ray.models import png

    assert png.FORMAT == IMAGE_FORMAT


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("family")
    write_random_family(folder)
    return folder


@pytest.mark.timeout(240)
def test_a_job_makes_what_the_plain_loop_makes(tmp_path: Path, weights: Path) -> None:
    """Five captions in two batches over Ray, and each alone in this process: the same bytes."""
    import torch

    from mulo_ray.decoding.interfaces import generate

    torch.set_num_threads(1)
    captions = tmp_path / "captions.txt"
    captions.write_text("a red apple\na cat\na dog\na red cat\nan apple and a dog\n")
    command = [sys.executable, str(ROOT / "jobs" / "prompts.py"), "--captions-file", str(captions)]
    command += ["--weights", str(weights), "--output", str(tmp_path / "out"), "--batch-size", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=230)
    assert done.returncode == 0, done.stderr
    store = Store(str(tmp_path / "out"))
    rows = Ledger(store).rows()
    assert len(rows) == 5
    assert {path.name for path in tmp_path.iterdir()} == {"captions.txt", "out"}

    engine = family_engine(ModelOptions(weights=str(weights)))
    roles = engine.roles(resolve(JobConfig(model=ModelOptions(weights=str(weights))), engine.card))
    assert roles.drafter is not None
    target, drafter = roles.target("cpu"), roles.drafter("cpu")
    for (key, sample), row in rows.items():
        request = target.request([target.prompt_used(row.prompt)], [image_seed(0, key, sample)])
        generation = generate(target.decoder, drafter.decoder, request)
        [png] = target.render(generation.tokens_BHW, [row.prompt])
        assert store.get(object_name(key, sample)) == png


@pytest.mark.parametrize("decoder", ["ar", "zipar", "mulo", "exact", "speculative", "eagle2", "lantern"])
def test_one_picture_without_ray(tmp_path: Path, weights: Path, decoder: str) -> None:
    """docs/reports.md D9: every decoder that --help lists runs."""
    command = [sys.executable, "-X", "importtime", "-m", "mulo_ray", "a red apple", "-o", "apple.png"]
    command += ["--decoder", decoder, "--weights", str(weights)]
    done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "apple.png").read_bytes().startswith(b"\x89PNG")
    assert not any(line.rpartition("|")[2].strip() == "ray" for line in done.stderr.splitlines()), "Ray was imported"


def test_a_prompt_that_cannot_be_drawn_is_one_sentence(tmp_path: Path, weights: Path) -> None:
    command = [sys.executable, "-m", "mulo_ray", "\u200b", "--weights", str(weights)]
    done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=55)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr

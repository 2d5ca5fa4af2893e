"""The real job on the embedded family: Ray, batches and processes change no byte of what the plain loop makes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray.config import JobConfig, ModelOptions
from mulo_ray.engine import IMAGE_FORMAT, family_engine
from mulo_ray.errors import CheckpointError
from mulo_ray.prompts import embedded_captions
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed
from mulo_ray.storage import Ledger, Store, object_name

ROOT = Path(__file__).parents[2]


def test_the_image_format_is_that_of_the_models() -> None:
    """It is part of the pixel hash, and read on a driver without torch."""
    from mulo_ray.models import png

    assert png.FORMAT == IMAGE_FORMAT


@pytest.fixture(scope="module")
def weights() -> None:
    try:
        family_engine(ModelOptions())
    except CheckpointError as error:
        pytest.skip(f"the embedded weights are not there yet: {error}")


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("weights")
def test_a_job_makes_what_the_plain_loop_makes(tmp_path: Path) -> None:
    """Issue 2: three captions in a batch through Ray, and each alone in this process: the same bytes."""
    from mulo_ray.decoding.interfaces import generate

    command = [sys.executable, str(ROOT / "jobs" / "coco5k.py"), "--limit", "3", "--output", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=230)
    assert done.returncode == 0, done.stderr
    store = Store(str(tmp_path / "out"))
    assert len(Ledger(store).rows()) == 3
    assert json.loads(store.get("report.json"))["made"] == 3

    engine = family_engine(ModelOptions())
    roles = engine.roles(resolve(JobConfig(), engine.card))
    assert roles.drafter is not None
    target, drafter = roles.target("cpu"), roles.drafter("cpu")
    for prompt in embedded_captions(3):
        request = target.request([target.prompt_used(prompt.text)], [image_seed(0, prompt.key, 0)])
        generation = generate(target.decoder, drafter.decoder, request)
        [png] = target.render(generation.tokens_BHW, [prompt.text])
        assert store.get(object_name(prompt.key, 0)) == png


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("weights")
def test_one_picture_without_ray(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mulo_ray",
        "a red apple",
        "-o",
        "apple.png",
        "--decoder",
        "ar",
        "--target-px",
        "32",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=_env(), capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "apple.png").read_bytes().startswith(b"\x89PNG")


def _env() -> dict[str, str]:
    import os

    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

"""Training as its users run it: from nothing, on Ray Train, killed and gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mulo_ray.training.image_sets import write_pictures
from mulo_ray.training.shapes import draw_shapes

ROOT = Path(__file__).parents[2]


def command(*args: object, **extra: str) -> tuple[list[str], dict[str, str]]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", **extra}
    return [sys.executable, str(ROOT / "jobs" / "train.py"), *map(str, args)], env


def train(*args: object, **extra: str) -> str:
    """Run `jobs/train.py ARGS` to its end; what it printed."""
    line, env = command(*args, **extra)
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture set of shapes, with a tokenizer of a few steps."""
    folder = tmp_path_factory.mktemp("shapes")
    draw_shapes(folder / "images", variants=2)
    write_pictures(str(folder / "images"), folder / "data")
    train("tokenizer", "--folder", folder, "--fresh", "--steps", 3, "--batch", 4, "--workers", 0)
    return folder


def records(folder: Path, stage: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / f"{stage}.metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smoke_run_lowers_the_loss_by_one_and_a_half_nats(tmp_path: Path) -> None:
    """All stages on Ray Train with one worker; the command itself fails when the loss does not fall enough."""
    out = train("smoke", "--folder", tmp_path)
    last = json.loads(out.splitlines()[-1])
    assert last["nats_at_start"] - last["nats_at_end"] > 1.5
    card = json.loads((tmp_path / "family" / "family.json").read_text())
    assert card["scales"]["32"]["steps"] == 120
    assert (tmp_path / "scale-32.metrics.png").stat().st_size > 5000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_workers_train_what_one_trains(shapes: Path, tmp_path: Path, s3_server: dict) -> None:
    """Checkpoints in a bucket; two workers halve each batch, so the weights agree but for the order of sums."""
    uri = f"s3://{s3_server['bucket']}/two-workers"
    common = ("scale", "--folder", shapes, "--px", 32, "--fresh", "--steps", 4, "--batch", 8)
    (tmp_path / "tokenizer.pt").write_bytes((shapes / "tokenizer.pt").read_bytes())
    train(*common, "--checkpoints", tmp_path, "--workers", 0)
    import fsspec

    options = {"key": s3_server["env"]["AWS_ACCESS_KEY_ID"], "secret": s3_server["env"]["AWS_SECRET_ACCESS_KEY"]}
    bucket = fsspec.filesystem("s3", endpoint_url=s3_server["endpoint"], **options)
    bucket.pipe_file(f"{uri}/tokenizer.pt", (shapes / "tokenizer.pt").read_bytes())
    train(*common, "--checkpoints", uri, "--workers", 2, **s3_server["env"])
    (tmp_path / "two.pt").write_bytes(bucket.cat_file(f"{uri}/scale-32.pt"))
    one, two = (torch.load(tmp_path / name, weights_only=True) for name in ("scale-32.pt", "two.pt"))
    assert one["step"] == two["step"] == 4
    for name, value in one["model"].items():
        assert torch.allclose(value, two["model"][name], atol=2e-3), name


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stage", ["tokenizer", "scale-32"])
def test_a_killed_stage_goes_on(shapes: Path, tmp_path: Path, stage: str) -> None:
    """kill -9 in the middle; the same command goes on from the checkpoint, and the curve with it."""
    (tmp_path / "data").symlink_to(shapes / "data")
    args: tuple[object, ...] = ("tokenizer", "--batch", 4)
    if stage != "tokenizer":
        (tmp_path / "tokenizer.pt").write_bytes((shapes / "tokenizer.pt").read_bytes())
        args = ("scale", "--px", 32, "--batch", 8)
    args += ("--folder", tmp_path, "--fresh", "--workers", 0, "--save-every-s", 1)
    line, env = command(*args, "--steps", 100_000)
    with subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        for text in run.stdout:  # the second log line: both a checkpoint and a curve exist
            if '"step": 40' in text:
                break
        run.send_signal(signal.SIGKILL)
    saved = torch.load(tmp_path / f"{stage}.pt", weights_only=True)["step"]
    assert saved >= 20
    started = time.monotonic()
    train(*args, "--steps", saved + 30)
    assert time.monotonic() - started < 400
    lines = records(tmp_path, stage)
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line}
    later = [loss for step, loss in losses.items() if step > saved]
    assert later, "it went on logging"
    assert torch.load(tmp_path / f"{stage}.pt", weights_only=True)["step"] == saved + 30
    assert later[-1] < losses[20] * 1.05, "the curve went on from where it was, not from the start"

"""A stage on Ray Train: one worker on a laptop, several on a cluster, the same loop. Knows no model and no data.

Workers that die are started again (three times) and go on from the last checkpoint, which the loop itself writes.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mulo_ray.errors import RunError
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.loop import train
from mulo_ray.training.stages import Share, Stage
from mulo_ray.workers.session import session

_FAILURES = 3
_RAY_TRAIN = {
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # else what a worker prints is shown twice
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300",  # a minute, the default, is short on a busy machine
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Everything a worker process needs. `stage` builds it there; `checkpoint` opens its files."""

    stage: Callable[[], Stage]
    checkpoint: Callable[[Stage], Checkpoint]
    steps: int
    seconds: float = math.inf
    threads: int = 1


def run_here(training: Training) -> int:
    """Train in this process; the step reached."""
    torch.set_num_threads(training.threads)
    stage = training.stage()
    if torch.cuda.is_available():
        stage.to("cuda")
    return train(stage, training.checkpoint(stage), steps=training.steps, seconds=training.seconds)


def run_on_ray(training: Training, *, workers: int, gpu: bool) -> None:
    """Train on `workers` Ray Train workers. Raises RunError when they failed more often than they are restarted."""
    for name, value in _RAY_TRAIN.items():
        os.environ.setdefault(name, value)
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    with session(verbose=True):
        trainer = TorchTrainer(
            _work,
            train_loop_config={"training": training},
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpu),
            run_config=RunConfig(failure_config=FailureConfig(max_failures=_FAILURES)),
        )
        try:
            trainer.fit()
        except Exception as error:
            raise RunError(
                f"training stopped after its workers failed {_FAILURES + 1} times: {error}; "
                "the last checkpoint is kept, the same command goes on from it"
            ) from error


def _work(config: dict[str, Any]) -> None:
    """The loop of one Ray Train worker; Ray has set up the torch process group."""
    import ray.train.torch

    training: Training = config["training"]
    torch.set_num_threads(training.threads)
    context = ray.train.get_context()
    stage = training.stage()
    stage.to(str(ray.train.torch.get_device()))
    share = Share(rank=context.get_world_rank(), world=context.get_world_size())
    train(stage, training.checkpoint(stage), steps=training.steps, seconds=training.seconds, share=share)

"""The loop that trains any stage: rate schedule, gradients over all workers, checkpoints, logs. Knows no model.

float32, or bfloat16 forwards under float32 weights where `precision` says so.
"""

import math
import time
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.precision import forward_precision
from mulo_ray.training.stages import Share, Stage

LOG_EVERY = 20
_WARM_UP = 100


def train(
    stage: Stage,
    checkpoint: Checkpoint,
    *,
    steps: int,
    seconds: float = math.inf,
    show_every_s: float = 300.0,
    share: Share | None = None,
) -> int:
    """Train to `steps` steps, or for `seconds`; the step reached. Resumes from the checkpoint.

    With `share`, gradients are averaged over a torch.distributed group, and the first worker writes all files.
    """
    share = share or Share()
    first = step = checkpoint.load(stage)
    writes = share.rank == 0
    device = next(stage.network.parameters()).device
    started = shown = time.monotonic()
    running, pictures = math.nan, 0
    while step < steps and not _time_is_up(started + seconds, share, device):
        set_rate(stage.optimizers, rate(step, steps))
        with forward_precision(device):
            measured = stage.loss(step, share)
        for optimizer in stage.optimizers:
            optimizer.zero_grad(set_to_none=True)
        measured.loss.backward()
        average_gradients(stage.network.parameters(), share.world)
        nn.utils.clip_grad_norm_(stage.network.parameters(), 1.0)
        for optimizer in stage.optimizers:
            optimizer.step()
        stage.after_step(step)
        stage.average.update(stage.network)
        step += 1
        pictures += measured.pictures
        running = measured.loss.item() if math.isnan(running) else 0.98 * running + 0.02 * measured.loss.item()
        if not writes:
            continue
        if step % LOG_EVERY == 0:
            per_s = pictures / (time.monotonic() - started)
            eta_s = (steps - step) * (time.monotonic() - started) / (step - first)
            checkpoint.log(step=step, loss=running, pictures_per_s=per_s, eta_s=round(eta_s), **measured.values)
        checkpoint.save_if_due(stage, step)
        if time.monotonic() - shown > show_every_s:
            shown = time.monotonic()
            _show(stage, checkpoint, step)
    if writes:
        checkpoint.save(stage, step)
        _show(stage, checkpoint, step)
        checkpoint.plot()
    return step


def rate(step: int, steps: int) -> float:
    """Share of the full learning rate: warm-up over 100 steps, constant, linear to a twentieth over the last third."""
    return min(1.0, (step + 1) / _WARM_UP, 0.05 + 0.95 * (steps - step) / (steps / 3))


def set_rate(optimizers: Iterable[torch.optim.Optimizer], share: float) -> None:
    """Set every group's rate to `share` of its `initial_lr`."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * share


def average_gradients(parameters: Iterable[nn.Parameter], world: int) -> None:
    """Mean of every gradient over the workers; nothing to do for one."""
    if world == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


def _time_is_up(deadline: float, share: Share, device: torch.device) -> bool:
    """Whether to stop; the first worker's clock decides for all, so that none waits for another for ever."""
    up = time.monotonic() > deadline
    if share.world == 1 or math.isinf(deadline):
        return up
    flag = torch.tensor(float(up), device=device)
    dist.broadcast(flag, 0)
    return bool(flag)


def _show(stage: Stage, checkpoint: Checkpoint, step: int) -> None:
    """Held-out figures and a sheet of samples."""
    checkpoint.log(step=step, **stage.evaluate())
    sheet = stage.sheet()
    if sheet is not None:
        checkpoint.show(sheet)

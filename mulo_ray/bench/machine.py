"""What this machine can do at most, on the threads that torch has: multiply matrices, read memory, copy it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

_SIDE = 1024
_WIDE = (8192, 8192)  # 256 MiB in float32: no cache holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Float32 operations and bytes per second."""

    flops: float
    read_bytes: float
    copy_bytes: float

    def seconds(self, flops: float, read_bytes: float) -> float:
        """The least that work can take: whichever of the two bounds it more."""
        return max(flops / self.flops, read_bytes / self.read_bytes)


@torch.inference_mode()
def measure_machine(repeats: int = 5) -> Machine:
    """Best of `repeats` each: a bound is what was reached once. About a second and 512 MiB."""
    square = torch.ones(_SIDE, _SIDE)
    wide, vector = torch.ones(_WIDE), torch.ones(_WIDE[1])
    other = torch.empty_like(wide)
    size = wide.numel() * wide.element_size()
    return Machine(
        flops=2 * _SIDE**3 / best(lambda: square @ square, repeats),
        read_bytes=size / best(lambda: wide @ vector, repeats),
        copy_bytes=2 * size / best(lambda: other.copy_(wide), repeats),
    )


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of `repeats` calls, after one to warm up."""
    work()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)

"""A fixed number of torch threads per CPU actor. Knows nothing of roles."""

import os
import sys


def limit_threads(device: str, threads: int = 1) -> None:
    """Keep torch, and whatever else uses OpenMP, at `threads` on a CPU: results may depend on it, and cores are shared.

    Called before a role is built (the environment counts when torch is imported) and after (if it was already).
    """
    if device != "cpu":
        return
    os.environ.update(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)

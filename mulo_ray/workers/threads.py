"""One torch thread per CPU actor. Knows nothing of roles."""

import os
import sys


def one_thread(device: str) -> None:
    """Keep torch, and whatever else uses OpenMP, at one thread on a CPU: results depend on the count; cores are shared.

    Called before a role is built (the environment counts when torch is imported) and after (if it was already).
    """
    if device != "cpu":
        return
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)

"""Whether a role fits on its device, asked in the process that will load it. Knows no family by name."""

from pathlib import Path

from mulo_ray.errors import PlacementError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.plan import Load, refusal, role_plans


def free_memory(device: str) -> int | None:
    """Bytes free on "cuda" or available on "cpu"; None where the system does not say."""
    if device.startswith("cuda"):
        import torch

        free, _ = torch.cuda.mem_get_info()
        return int(free)
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024


def refuse_what_cannot_fit(card: FamilyCard, role: str, load: Load, device: str) -> None:
    """Raise PlacementError when `role` ("drafter", "target") of `load` needs more than `device` has free."""
    memory = free_memory(device)
    if card.memory is None or memory is None:
        return
    plans = [plan for plan in role_plans(card, load, device.partition(":")[0]) if plan.name == role]
    problem = refusal(plans, load, memory)
    if problem:
        raise PlacementError(problem)

"""The text stage over a real local Ray, with stub roles: payloads travel, rows fail alone, and so do lost workers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import stub_roles

from mulo_ray.errors import CheckpointError
from mulo_ray.seeding import image_seed
from mulo_ray.types import LedgerRow
from mulo_ray.workers.blocks import block_table, read_block, read_conditions, with_conditions
from mulo_ray.workers.placement import Placement
from mulo_ray.workers.roles import Conditioned, Item, Roles
from mulo_ray.workers.shapes import CPUS_PER_ROLE, GroupShape

pytestmark = pytest.mark.usefixtures("local_ray")

ROLES = Roles(target=stub_roles.make_target, drafter=stub_roles.make_drafter, conditioner=stub_roles.make_conditioner)


class PutFile:
    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, key: str, sample: int, data: bytes) -> str:
        path = self.root / f"{key}-{sample}.png"
        path.write_bytes(data)
        return str(path)


def items_of(texts: Sequence[str]) -> list[Item]:
    return [Item(key=f"k{n}", sample=0, text=text, seed=image_seed(7, f"k{n}", 0)) for n, text in enumerate(texts)]


def run(
    items: Sequence[Item], root: Path, *, roles: Roles = ROLES, batch: int = 4, text_s: float = 60.0
) -> dict[str, LedgerRow]:
    from mulo_ray.workers.stage import StageLimits, run_stage

    shape = GroupShape(device="cpu", roles=2, num_cpus=2 * CPUS_PER_ROLE, num_gpus=0, text_cpus=CPUS_PER_ROLE)
    blocks = [(number, items[start : start + batch]) for number, start in enumerate(range(0, len(items), batch))]
    placement = Placement(shape=shape, groups=1, max_groups=2)
    limits = StageLimits(text_s=text_s)
    found = run_stage(blocks, roles, placement, PutFile(root), in_flight=2, limits=limits)
    return {row.key: row for rows in found for row in rows}


def test_payloads_travel_in_the_block_as_they_are() -> None:
    arrays = {"codes": np.arange(6, dtype=np.uint16).reshape(2, 3), "one": np.array(-5), "none": np.zeros((0, 4))}
    conditioned = [Conditioned(prompt_used="A", payload=arrays), Conditioned(error="no", transient=True)]
    items = items_of(["a", "b"])
    assert read_conditions(block_table(3, items)) is None
    table = with_conditions(block_table(3, items), conditioned)
    assert read_block(table) == (3, items)
    first, second = read_conditions(table) or []
    assert (first.prompt_used, second.error, second.transient, second.payload) == ("A", "no", True, {})
    for name, array in arrays.items():
        found = first.payload[name]
        assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())


@pytest.mark.timeout(300)
def test_a_row_that_fails_in_the_text_stage_fails_alone(tmp_path: Path) -> None:
    """docs/reports.md D1, B3: two rows of eight for good, one for now; five pictures that are those of their texts."""
    items = items_of(["a", "refuse", "b", "mute", "c", "muddle", "d", "e"])
    rows = run(items, tmp_path)
    failed = {row.key: (row.error, row.transient) for row in rows.values() if row.status == "failed"}
    assert failed == {
        "k1": ("this prompt is refused: say something else", False),
        "k3": ("nothing can be said about this", False),
        "k5": ("ValueError: the stub was told to fail", True),
    }
    expected = {f"{i.key}-0.png": stub_roles.png_of(i.text, i.seed) for i in items if i.key not in failed}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == expected
    assert rows["k0"].prompt_used == "A"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_row_that_kills_its_text_stage_fails_alone(tmp_path: Path) -> None:
    """docs/reports.md D3: without an end to restarts, it would take the run with it."""
    rows = run(items_of(["a", "choke", "b", "c"]), tmp_path, batch=2)
    assert {row.key for row in rows.values() if row.status == "failed"} == {"k1"}
    assert "ended its text stage 2 times when it ran alone" in rows["k1"].error


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_text_stage_that_hangs_is_replaced(tmp_path: Path) -> None:
    """docs/reports.md D3: no error and no progress."""
    (tmp_path / "out").mkdir()
    rows = run(items_of(["a", f"stallonce:{tmp_path / 'stalled'}"]), tmp_path / "out", text_s=5)
    assert (tmp_path / "stalled").exists()
    assert {row.status for row in rows.values()} == {"ok"}


@pytest.mark.timeout(300)
def test_what_would_fail_every_row_ends_the_run(tmp_path: Path) -> None:
    broken = Roles(target=stub_roles.make_target, conditioner=stub_roles.fail_to_build_conditioner)
    with pytest.raises(CheckpointError, match="no text network at 'nowhere'"):
        run(items_of(["a"]), tmp_path, roles=broken)
    with pytest.raises(CheckpointError, match=r"no weights at 'nowhere\.safetensors'"):
        run(items_of(["a", "astray"]), tmp_path)

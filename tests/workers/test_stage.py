"""The stage over a real local Ray, with stub roles: same bytes everywhere, rows fail alone, lost workers are replaced."""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import stub_roles

from mulo_ray.config import RunOptions
from mulo_ray.errors import CheckpointError, WorkerLostError
from mulo_ray.seeding import image_seed
from mulo_ray.types import LedgerRow
from mulo_ray.workers.placement import CPUS_PER_ROLE, GroupShape, Placement
from mulo_ray.workers.roles import Item, Roles

pytestmark = pytest.mark.usefixtures("local_ray")

PAIR = Roles(target=stub_roles.make_target, drafter=stub_roles.make_drafter)


class PutFile:
    """A put into a local folder; the name is the key."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, key: str, sample: int, data: bytes) -> str:
        path = self.root / f"{key}-{sample}.png"
        path.write_bytes(data)
        return str(path)


def items_of(texts: Sequence[str]) -> list[Item]:
    return [Item(key=f"k{n}", sample=0, text=text, seed=image_seed(7, f"k{n}", 0)) for n, text in enumerate(texts)]


def run(items: Sequence[Item], root: Path, *, roles: Roles = PAIR, groups: int = 1, batch: int = 4, in_flight: int = 3, **limits: float) -> dict[str, LedgerRow]:
    from mulo_ray.workers.stage import StageLimits, run_stage

    shape = GroupShape(device="cpu", roles=roles.per_group, num_cpus=CPUS_PER_ROLE * roles.per_group, num_gpus=0)
    blocks = [(start, items[start : start + batch]) for start in range(0, len(items), batch)]
    rows: dict[str, LedgerRow] = {}
    root.mkdir(exist_ok=True)
    placement = Placement(shape=shape, groups=groups, max_groups=groups)
    for some in run_stage(blocks, roles, placement, PutFile(root), in_flight=in_flight, limits=StageLimits(**limits)):  # type: ignore[arg-type]
        assert not {row.key for row in some} & set(rows), "one row per item"
        rows |= {row.key: row for row in some}
    return rows


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir()}


def test_bytes_do_not_depend_on_groups_batch_or_flight(tmp_path: Path) -> None:
    """REPORTS B3 (same text, distinct images), B5 (last batch is smaller), D2 (paired by key), at two shapes of the run."""
    items = items_of(["same words"] * 6 + ["a", "b", "c", "d"])
    one = run(items, tmp_path / "one", groups=2, batch=4, in_flight=3)
    two = run(items, tmp_path / "two", groups=1, batch=3, in_flight=1)
    assert set(one) == set(two) == {item.key for item in items}
    expected = {f"{i.key}-0.png": stub_roles.png_of(i.text, i.seed) for i in items}
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == expected
    assert len(set(expected.values())) == 10
    assert all(row.status == "ok" and row.bytes > 0 and row.attempts == 1 for row in one.values())
    assert '"forwards_drafter": 3' in one["k0"].stats and '"drafter_busy"' in one["k0"].stats


def test_a_target_alone_needs_no_drafter(tmp_path: Path) -> None:
    rows = run(items_of(["a", "b", "c"]), tmp_path / "out", roles=Roles(target=stub_roles.make_target), batch=8)
    assert [row.status for row in rows.values()] == ["ok"] * 3


def test_a_bad_row_costs_itself_alone(tmp_path: Path) -> None:
    """REPORTS D1: row 5 of 8 fails in batches of 4; a refused prompt is for good, an unknown error may be tried again."""
    rows = run(items_of(["a", "refuse", "b", "c", "d", "boom", "e", "f"]), tmp_path / "out")
    failed = {key: row for key, row in rows.items() if row.status == "failed"}
    assert set(failed) == {"k1", "k5"} and len(rows) == 8
    assert failed["k1"].error == "this prompt is refused: say something else" and not failed["k1"].transient
    assert failed["k5"].error == "ValueError: the stub was told to fail" and failed["k5"].transient
    assert len(contents(tmp_path / "out")) == 6


def test_a_dead_worker_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    """REPORTS D3, ray#59522: the target's process ends in mid batch, once; another time it hangs."""
    items = items_of(["a", f"dieonce:{tmp_path / 'died'}", "b", f"hangonce:{tmp_path / 'hung'}", "c"])
    rows = run(items, tmp_path / "out", batch=2, in_flight=2, round_s=4)
    assert [row.status for row in rows.values()] == ["ok"] * 5
    assert rows["k1"].attempts > 1 and (tmp_path / "hung").exists()


def test_the_row_that_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    """Eight rows, one of them poison: one failure, seven images."""
    rows = run(items_of(["a", "b", "c", "d", "e", "die", "f", "g"]), tmp_path / "out", batch=4, in_flight=2)
    assert {key for key, row in rows.items() if row.status == "failed"} == {"k5"}
    assert "ended its worker process" in rows["k5"].error and rows["k5"].attempts == 4
    assert len(contents(tmp_path / "out")) == 7


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [(stub_roles.fail_to_build, CheckpointError, "no weights at"), (stub_roles.die_while_building, WorkerLostError, "lack of memory")],
)
def test_a_role_that_cannot_be_built_ends_the_run_in_seconds(
    tmp_path: Path, build: Callable[[str], stub_roles.StubTarget], error: type[Exception], words: str
) -> None:
    """REPORTS D3: the sentence of the error, not a traceback, and no endless restarts."""
    started = time.monotonic()
    with pytest.raises(error, match=words):
        run(items_of(["a"]), tmp_path / "out", roles=Roles(target=build))
    assert time.monotonic() - started < 30


def test_an_error_of_the_engine_ends_the_run(tmp_path: Path) -> None:
    """REPORTS D1, second half: what would fail every row is not a row failure."""
    with pytest.raises(CheckpointError, match="16 entries"):
        run(items_of(["a", "fatal"]), tmp_path / "out")


def test_drafter_and_target_work_at_the_same_time(tmp_path: Path) -> None:
    """REPORTS D5: two roles of 60 ms a round, 8 micro-batches of 3 rounds: 24 rounds take 2.9 s in turn, 1.5 s overlapped."""
    slow = Roles(
        target=functools.partial(stub_roles.make_target, sleep_s=0.06),
        drafter=functools.partial(stub_roles.make_drafter, sleep_s=0.06),
    )
    seconds = {}
    for in_flight in (1, 4):
        seconds[in_flight] = _decoding_seconds(slow, in_flight)
    assert seconds[1] > 24 * 0.12
    assert seconds[4] < 0.8 * seconds[1]


def _decoding_seconds(roles: Roles, in_flight: int) -> float:
    """Wall time of 8 micro-batches in one group, its start left out."""
    import ray

    from mulo_ray.workers.attempts import Attempts

    attempts = ray.remote(Attempts).options(num_cpus=0).remote()
    probe = ray.remote(_Probe).options(num_cpus=0).remote(roles, attempts, in_flight)
    return float(ray.get(probe.seconds.remote(8)))


class _Probe:
    """A group without Ray Data around it."""

    def __init__(self, roles: Roles, attempts: object, in_flight: int) -> None:
        from mulo_ray.workers.group import Group

        shape = GroupShape(device="cpu", roles=2, num_cpus=0, num_gpus=0)
        self.group = Group(roles, shape, attempts, in_flight)

    async def seconds(self, batches: int) -> float:
        import asyncio

        from mulo_ray.workers.blocks import block_table

        started = time.perf_counter()
        await asyncio.gather(*[self.group(block_table(n, items_of(["x", "y"]))) for n in range(batches)])
        return time.perf_counter() - started


def test_a_run_gives_its_devices_back(tmp_path: Path) -> None:
    """REPORTS D8, ray#64035: after a good run, a failed one and an abandoned one everything is free again."""
    import ray

    from mulo_ray.workers.stage import run_stage

    run(items_of(["a", "b"]), tmp_path / "out")
    with pytest.raises(CheckpointError):
        run(items_of(["fatal"]), tmp_path / "out")
    shape = GroupShape(device="cpu", roles=2, num_cpus=0.5, num_gpus=0)
    blocks = [(n, items_of([f"dawdle {n}"])) for n in range(20)]
    slow = Roles(target=functools.partial(stub_roles.make_target, sleep_s=0.2), drafter=stub_roles.make_drafter)
    rows = run_stage(blocks, slow, Placement(shape=shape, groups=1, max_groups=1), PutFile(tmp_path), in_flight=1)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 15
    while ray.available_resources().get("CPU") != 2.0 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ray.available_resources().get("CPU") == 2.0


def test_options_reach_the_preflight() -> None:
    assert RunOptions().min_groups == 1

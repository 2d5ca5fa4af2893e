"""The stage over a real local Ray, with stub roles: same bytes, rows fail alone, lost workers are replaced."""

import asyncio
import dataclasses
import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import stub_roles

from mulo_ray.errors import CheckpointError, WorkerLostError
from mulo_ray.seeding import image_seed
from mulo_ray.types import LedgerRow
from mulo_ray.workers.blocks import block_table, read_outcomes
from mulo_ray.workers.placement import Placement
from mulo_ray.workers.roles import Item, Roles
from mulo_ray.workers.shapes import CPUS_PER_ROLE, GroupShape

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


def run(
    items: Sequence[Item],
    root: Path,
    *,
    roles: Roles = PAIR,
    groups: int = 1,
    batch: int = 4,
    in_flight: int = 3,
    **limits: float,
) -> dict[str, LedgerRow]:
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


def without_times(parts: Sequence[pa.Table]) -> list[dict[str, Any]]:
    return [row | {"stats": "", "timing": ""} for part in parts for row in read_outcomes(part)]


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir()}


@pytest.mark.timeout(300)
def test_bytes_do_not_depend_on_groups_batch_or_flight(tmp_path: Path) -> None:
    """docs/reports.md B3 (same text, distinct images), B5 (a smaller last batch), D2 (paired by key, not position)."""
    items = items_of(["same words"] * 6 + ["a", "b", "c", "d"])
    one = run(items, tmp_path / "one", groups=2, batch=4, in_flight=3)
    assert set(one) == {item.key for item in items}
    expected = {f"{i.key}-0.png": stub_roles.png_of(i.text, i.seed) for i in items}
    assert contents(tmp_path / "one") == expected
    [alone], _ = decode(PAIR, 1, [items])
    assert {f"{row['key']}-0.png": row["png"] for row in read_outcomes(alone)} == expected
    assert len(set(expected.values())) == 10
    assert all((row.status, row.attempts) == ("ok", 1) and row.bytes > 0 for row in one.values())
    assert '"forwards_drafter": 3' in one["k0"].stats
    assert '"drafter_busy"' in one["k0"].stats


def test_a_group_survives_bad_rows(tmp_path: Path) -> None:
    """reports D1: rows 1 and 5 of 8 fail in batches of 4; a refused prompt is for good, another error may pass."""
    table = decode(PAIR, 3, [items_of(["a", "refuse", "b", "c"]), items_of(["d", "boom", "e", "f"])])[0]
    rows = [row for part in table for row in read_outcomes(part)]
    assert [bool(row["png"]) for row in rows] == [True, False, True, True] * 1 + [True, False, True, True]
    assert rows[1]["error"] == "this prompt is refused: say something else"
    assert not rows[1]["transient"]
    assert rows[5]["error"] == "ValueError: the stub was told to fail"
    assert rows[5]["transient"]


def test_a_target_alone_needs_no_drafter() -> None:
    [part], _ = decode(Roles(target=stub_roles.make_target), 1, [items_of(["a", "b", "c"])])
    assert [row["error"] for row in read_outcomes(part)] == [""] * 3


def test_rows_kept_only_for_company_are_not_handed_on() -> None:
    """A resume without batch invariance decodes whole blocks; what is stored already stays as it is."""
    items = [dataclasses.replace(item, wanted=item.key != "k1") for item in items_of(["a", "b", "c"])]
    [part], _ = decode(PAIR, 1, [items])
    assert [row["key"] for row in read_outcomes(part)] == ["k0", "k2"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_lost_workers_are_replaced_and_the_row_that_kills_fails_alone(tmp_path: Path) -> None:
    """reports D3, ray#59522: a target dies once, one row of eight always kills: 7 images, 1 failure.

    The order of blocks is chance: the row that dies once may do so alone, when its block was lost twice for the other.
    """
    once = f"dieonce:{tmp_path / 'died'}"
    rows = run(items_of(["a", once, "b", "f", "c", "die", "d", "e"]), tmp_path / "out", batch=2, in_flight=2)
    assert {key for key, row in rows.items() if row.status == "failed"} == {"k5"}
    assert "ended its worker process" in rows["k5"].error
    assert rows["k5"].attempts >= 4
    assert rows["k1"].attempts > 1
    assert len(contents(tmp_path / "out")) == 7


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_row_that_is_lost_once_alone_is_tried_again(tmp_path: Path) -> None:
    """Its block was lost twice; a third loss may be the machine's."""
    thrice = " ".join(f"dieonce:{tmp_path / name}" for name in ("first", "second", "third"))
    rows = run(items_of(["a", thrice]), tmp_path / "out", batch=2)
    assert {row.status for row in rows.values()} == {"ok"}
    assert rows["k1"].attempts == 4
    assert (tmp_path / "third").exists()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    """reports D3: no error and no progress. In a run of its own: a row that hangs when it runs alone would fail."""
    rows = run(items_of(["a", f"hangonce:{tmp_path / 'hung'}"]), tmp_path / "out", round_s=10)
    assert (tmp_path / "hung").exists()
    assert {row.status for row in rows.values()} == {"ok"}
    assert rows["k1"].attempts > 1
    assert len(contents(tmp_path / "out")) == 2


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (stub_roles.fail_to_build, CheckpointError, "no weights at"),
        (stub_roles.die_while_building, WorkerLostError, "lack of memory"),
    ],
)
def test_a_role_that_cannot_be_built_ends_the_run_in_seconds(
    tmp_path: Path, build: Callable[[str], stub_roles.StubTarget], error: type[Exception], words: str
) -> None:
    """reports D3: the sentence of the error, not a traceback, and no endless restarts."""
    with pytest.raises(error, match=words):
        run(items_of(["a"]), tmp_path / "out", roles=Roles(target=build))


ROLE_NAMES = ("StubDrafter", "StubTarget")


@pytest.mark.timeout(300)
def test_drafter_and_target_work_at_the_same_time(tmp_path: Path) -> None:
    """reports D5: with micro-batches in flight both roles are busy at once, with one never; the results are equal."""
    blocks = [items_of(["x", "y"])] * 8
    outcomes = []
    for in_flight, overlaps in ((1, False), (4, True)):
        journal = tmp_path / f"in-flight-{in_flight}"
        slow = Roles(
            target=functools.partial(stub_roles.make_target, sleep_s=0.06, journal=str(journal)),
            drafter=functools.partial(stub_roles.make_drafter, sleep_s=0.06, journal=str(journal)),
        )
        outcomes.append(decode(slow, in_flight, blocks)[0])
        lines = [line.split() for line in journal.read_text().splitlines()]
        assert len(lines) == 2 * 8 * stub_roles.ROUNDS
        busy = {role: [(float(s), float(e)) for name, s, e in lines if name == role] for role in ROLE_NAMES}
        shared = sum(max(0.0, min(e, f) - max(s, t)) for s, e in busy["StubDrafter"] for t, f in busy["StubTarget"])
        assert (shared > 0.06) == overlaps
    assert without_times(outcomes[0]) == without_times(outcomes[1])


@pytest.mark.timeout(240)
def test_bytes_do_not_depend_on_the_shape_of_the_group() -> None:
    """One drafter feeds three targets, or both roles share a process: the same pictures, bad rows included."""
    blocks = [items_of(["a", "refuse", "b"]), items_of(["c", "boom", "d", "e"])] + [items_of(["x", "y"])] * 4
    pair, three, shared = (
        decode(
            PAIR, 2, blocks, GroupShape(device="cpu", roles=roles, targets=targets, shared=one, num_cpus=0, num_gpus=0)
        )
        for roles, targets, one in ((2, 1, False), (4, 3, False), (2, 1, True))
    )
    told = [without_times(parts) for parts, _ in (pair, three, shared)]
    assert told[0] == told[1] == told[2]
    lanes = [
        {
            lane["role"]
            for part in parts
            for row in read_outcomes(part)
            if row["timing"]
            for lane in json.loads(row["timing"])["lanes"]
        }
        for parts, _ in (pair, three, shared)
    ]
    assert lanes == [{"drafter", "target"}, {"drafter", "target 1", "target 2", "target 3"}, {"both roles"}]
    counts = [json.loads(read_outcomes(parts[2])[0]["stats"]) for parts, _ in (pair, three, shared)]
    assert [count["forwards_drafter"] for count in counts] == [stub_roles.ROUNDS] * 3


def decode(
    roles: Roles, in_flight: int, blocks: Sequence[Sequence[Item]], shape: GroupShape | None = None
) -> tuple[list[pa.Table], float]:
    """The outcomes of `blocks` in one group without Ray Data around it, and the wall time, its start left out."""
    import ray

    from mulo_ray.workers.attempts import Attempts

    attempts = ray.remote(Attempts).options(num_cpus=0).remote()
    probe = ray.remote(_Probe).options(num_cpus=0).remote(roles, attempts, in_flight, shape)
    answer: tuple[list[pa.Table], float] = ray.get(probe.decode.remote(blocks))
    return answer


class _Probe:
    def __init__(self, roles: Roles, attempts: object, in_flight: int, shape: GroupShape | None) -> None:
        from mulo_ray.workers.group import Group

        shape = shape or GroupShape(device="cpu", roles=roles.per_group, num_cpus=0, num_gpus=0)
        self.group = Group(roles, shape, attempts, in_flight)

    async def decode(self, blocks: Sequence[Sequence[Item]]) -> tuple[list[pa.Table], float]:
        started = time.perf_counter()
        tables = [block_table(number, items) for number, items in enumerate(blocks)]
        return list(await asyncio.gather(*map(self.group, tables))), time.perf_counter() - started


@pytest.mark.timeout(240)
def test_a_run_gives_its_devices_back(tmp_path: Path) -> None:
    """reports D8, D1 (a fatal error stops), ray#64035: free after a failed run and after an abandoned one."""
    import ray

    from mulo_ray.workers.stage import run_stage

    with pytest.raises(CheckpointError, match="16 entries"):
        run(items_of(["a", "fatal"]), tmp_path / "out")
    slow = Roles(target=functools.partial(stub_roles.make_target, sleep_s=0.2))
    shape = GroupShape(device="cpu", roles=1, num_cpus=0.25, num_gpus=0)
    blocks = [(n, items_of([f"dawdle {n}"])) for n in range(20)]
    rows = run_stage(blocks, slow, Placement(shape=shape, groups=1, max_groups=1), PutFile(tmp_path), in_flight=1)
    next(rows)
    rows.close()
    deadline = time.monotonic() + 60
    while ray.available_resources().get("CPU") != 2.0 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ray.available_resources().get("CPU") == 2.0

"""Every fault in a run of 24 prompts: all images, the bytes of a run without faults, nothing left behind.

A target that hangs: test_stage.py. The driver: tests/jobs/test_killed_jobs.py. A node: tests/cluster/test_lost_node.py.
SIGKILL is also what the kernel's and Ray's memory monitors send.
"""

import dataclasses
import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stub_roles
from processes import DECODING, TITLES, kill_one, titled, wait_until, workers
from stub_engine import stub_engine

from mulo_ray import cli
from mulo_ray.config import JobConfig, OutputOptions, RunOptions
from mulo_ray.engine import Engine
from mulo_ray.job import run
from mulo_ray.seeding import image_seed
from mulo_ray.storage import Ledger, Store, object_name
from mulo_ray.types import ExitCode, Prompt
from mulo_ray.workers.roles import Roles

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("local_ray"), pytest.mark.timeout(240)]

COUNT = 24
TEXTS = [f"thing number {n}" for n in range(COUNT)]
BIG_BYTES = 8 * 2**20
"""Of 24 such images Ray's store of 100 MiB holds half."""


def made(
    root: Path, engine: Engine, texts: list[str] = TEXTS, *, batch: int = 2, max_failed: int = 0
) -> ExitCode | int:
    """The exit code of a job over `texts`, as a shell would see it."""
    config = JobConfig(
        run=RunOptions(device="cpu", batch_size=batch, groups=1, in_flight=2),
        output=OutputOptions(output=str(root), max_failed=max_failed),
    )
    prompts = [Prompt(key=f"k{n:02}", text=text) for n, text in enumerate(texts)]
    return cli.main(lambda: run(config, prompts, engine=engine))


def assert_whole(
    root: Path,
    failed: frozenset[str] = frozenset(),
    picture: Callable[[str, int], bytes] = stub_roles.png_of,
) -> None:
    """One ledger row per prompt; of every one but `failed` the very picture; no actor, no reservation left."""
    import ray
    from ray.util.placement_group import placement_group_table

    store = Store(str(root))
    rows = Ledger(store).rows()
    assert set(rows) == {(f"k{n:02}", 0) for n in range(COUNT)}
    assert {key for (key, _), row in rows.items() if row.status != "ok"} == failed
    assert set(store.list("images")) == {object_name(*pair) for pair, row in rows.items() if row.status == "ok"}
    for (key, sample), row in rows.items():
        if row.status == "ok":
            assert store.get(object_name(key, sample)) == picture(row.prompt, image_seed(0, key, sample))
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0, "a reservation is left")
    wait_until(lambda: not any(workers(kind) for kind in TITLES), "a worker is left")
    assert [one for one in placement_group_table().values() if one["state"] != "REMOVED"] == []


@pytest.mark.parametrize("kind", ["drafter", "target", "group", "writer"])
def test_a_killed_process_costs_time_only(tmp_path: Path, kind: str) -> None:
    """docs/reports.md D3, ray#59522: one SIGKILL while micro-batches are open."""
    killed: list[int] = []

    def strike() -> None:
        wait_until(lambda: bool(titled(DECODING)), "nothing is decoded", 120)
        time.sleep(0.5)
        killed.append(kill_one(kind))

    thread = threading.Thread(target=strike)
    thread.start()
    code = made(tmp_path, stub_engine(sleep_s=0.1))
    thread.join()
    assert (code, len(killed)) == (ExitCode.DONE, 1)
    assert_whole(tmp_path)
    retried = [row for row in Ledger(Store(str(tmp_path))).rows().values() if row.attempts > 1]
    assert bool(retried) == (kind != "writer")


def test_bad_rows_cost_themselves_only(tmp_path: Path) -> None:
    """One prompt of eight ends its worker always, one of the next raises: 22 images, and the exit code says so."""
    texts = [*TEXTS]
    texts[3], texts[12] = "die", "boom"
    assert made(tmp_path, stub_engine(), texts, batch=8) == ExitCode.TOO_MANY_FAILED
    assert_whole(tmp_path, frozenset({"k03", "k12"}))
    rows = Ledger(Store(str(tmp_path))).rows()
    assert "ended its worker process 2 times when it ran alone, after its block was lost" in rows["k03", 0].error
    assert rows["k12", 0].error == "ValueError: the stub was told to fail"


@pytest.mark.parametrize("how", ["die", "raise"])
def test_roles_that_do_not_load_at_first_are_loaded_again(tmp_path: Path, how: str) -> None:
    flag = tmp_path / "failed"
    build = functools.partial(stub_roles.make_target_failing_once, how=how, flag=str(flag))
    assert made(tmp_path / "out", _with(target=build)) == ExitCode.DONE
    assert flag.exists()
    assert_whole(tmp_path / "out")


@pytest.mark.parametrize(
    ("build", "words"),
    [(stub_roles.fail_to_build, "no weights at"), (stub_roles.die_while_building, "lack of memory")],
)
def test_roles_that_never_load_fail_the_job(
    tmp_path: Path, build: Callable[[str], Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(tmp_path, _with(target=build)) == ExitCode.RUN_FAILED
    assert words in capsys.readouterr().err.splitlines()[-1]
    wait_until(lambda: not any(workers(kind) for kind in TITLES), "a worker is left")


def test_images_that_the_object_store_cannot_hold_arrive(tmp_path: Path) -> None:
    """ray#26441: 192 MiB of images through a store of 100 MiB, by a writer that is slower than the group."""
    build = functools.partial(stub_roles.make_target_of_big_pictures, size=BIG_BYTES)
    assert made(tmp_path, _with(target=build), batch=4) == ExitCode.DONE
    assert_whole(tmp_path, picture=lambda text, seed: stub_roles.big_picture(text, seed, BIG_BYTES))


def _with(target: Callable[[str], Any]) -> Engine:
    return dataclasses.replace(
        stub_engine(), roles=lambda config: Roles(target=target, drafter=stub_roles.make_drafter)
    )

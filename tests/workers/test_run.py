"""`mulo_ray.job.run` in this process, over the shared local Ray, with stub roles: ledger, resume, counts."""

import json
from pathlib import Path

import pytest
import stub_roles
from stub_engine import stub_engine

from mulo_ray.config import InputOptions, JobConfig, OutputOptions, RunOptions, SamplingOptions
from mulo_ray.errors import PlacementError, ResumeError, RunError
from mulo_ray.job import cut_blocks, run
from mulo_ray.seeding import image_seed
from mulo_ray.storage import Ledger, Store, object_name, plan
from mulo_ray.types import ExitCode, LedgerRow, Prompt

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.timeout(240)]


def config(root: Path, **options: object) -> JobConfig:
    return JobConfig(
        input=InputOptions(samples_per_prompt=int(str(options.pop("samples", 1)))),
        sampling=SamplingOptions(seed=int(str(options.pop("seed", 0)))),
        run=RunOptions(device="cpu", batch_size=4, **options),  # type: ignore[arg-type]
        output=OutputOptions(output=str(root)),
    )


def prompts(*texts: str) -> list[Prompt]:
    return [
        Prompt(key=f"k{n}", text=text, error=None if text else "the caption is empty") for n, text in enumerate(texts)
    ]


def test_a_run_its_repetition_and_its_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/reports.md C9 (6 + 3, the exit code says so), C11 (what failed for now is retried), B5, D10."""
    once = f"dieonce:{tmp_path / 'died'}"
    mine = prompts("a", "", "refuse", "b", once, "boom", "c", "d", "e")
    report = run(config(tmp_path / "out"), mine, engine=stub_engine())
    assert (report.total, report.made, report.failed, report.done_before) == (9, 6, 3, 0)
    assert report.exit_code == ExitCode.TOO_MANY_FAILED
    store = Store(str(tmp_path / "out"))
    rows = Ledger(store).rows()
    good = {key for key, row in rows.items() if row.status == "ok"}
    assert set(rows) == {(f"k{n}", 0) for n in range(9)}
    assert set(store.list("images")) == {object_name(*key) for key in good}
    for key, sample in good:
        text = mine[int(key[1:])].text
        assert store.get(object_name(key, sample)) == stub_roles.png_of(text, image_seed(0, key, sample))
    assert json.loads(store.get("report.json"))["exit_code"] == 3
    assert {failure["key"] for failure in report.failures} == {"k1", "k2", "k5"}

    mine[5] = Prompt(key="k5", text="a mended prompt")
    capsys.readouterr()
    again = run(config(tmp_path / "out"), mine, engine=stub_engine())
    assert (again.made, again.done_before, again.retried, again.failed) == (1, 6, 1, 2)
    assert "6 already done, 1 retried, 2 failed for good, 0 new" in capsys.readouterr().err
    third = run(config(tmp_path / "out"), mine, engine=stub_engine())
    assert (third.made, third.done_before, third.exit_code) == (0, 7, ExitCode.TOO_MANY_FAILED)
    assert "nothing left to make" in capsys.readouterr().err


def test_another_seed_does_not_continue_a_run(tmp_path: Path) -> None:
    """reports D7: other pixels are refused by the name of the field; more groups or another batch size are not."""
    run(config(tmp_path / "out"), prompts("a"), engine=stub_engine())
    with pytest.raises(ResumeError, match="seed"):
        run(config(tmp_path / "out", seed=1), prompts("a"), engine=stub_engine())
    again = run(config(tmp_path / "out", in_flight=1, groups=2), prompts("a"), engine=stub_engine())
    assert (again.made, again.done_before) == (0, 1)


def test_a_resume_without_batch_invariance_meets_the_same_company(tmp_path: Path) -> None:
    """docs/architecture.md, Decisions: the batch is then part of the picture, so its company stays the same."""
    mine = prompts("a", "b", "c", "d", "e", "f")
    job = config(tmp_path / "out", batch_invariant=False)
    todo = plan([(prompt, 0) for prompt in mine], {("k1", 0): LedgerRow(key="k1", sample=0, status="ok", prompt="b")})
    blocks = cut_blocks(job, [(prompt, 0) for prompt in mine], todo)
    assert [(number, [item.key for item in items]) for number, items in blocks] == [
        (0, ["k0", "k1", "k2", "k3"]),
        (1, ["k4", "k5"]),
    ]
    assert [item.key for _, items in blocks for item in items if not item.wanted] == ["k1"]
    invariant = cut_blocks(config(tmp_path / "out"), [(prompt, 0) for prompt in mine], todo)
    assert [item.key for item in invariant[0][1]] == ["k0", "k2", "k3", "k4"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [({"groups": 50}, PlacementError, "use --groups 3 or fewer"), ({"device": "cuda"}, PlacementError, "--device cpu")],
)
def test_what_does_not_fit_is_said_before_any_work(
    tmp_path: Path, options: dict[str, object], error: type[Exception], words: str
) -> None:
    """reports D4."""
    job = config(tmp_path / "out")
    fields = {"device": "cpu", "batch_size": 4} | options
    job = JobConfig(output=job.output, run=RunOptions(**fields))  # type: ignore[arg-type]
    with pytest.raises(error, match=words):
        run(job, prompts("a"), engine=stub_engine())
    assert json.loads((tmp_path / "out" / "report.json").read_text())["made"] == 0


def test_a_run_in_which_nothing_works_stops(tmp_path: Path) -> None:
    """Not 5,000 rows one by one when each fails for the same reason of ours."""
    with pytest.raises(RunError, match=r"the first .* images all failed, the last with: ValueError"):
        run(config(tmp_path / "out"), prompts(*["boom"] * 60), engine=stub_engine())

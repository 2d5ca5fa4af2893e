"""What a rerun does: the plan and the run file (docs/reports.md C11, D7)."""

import json
from pathlib import Path

import pytest

from mulo_ray.errors import ResumeError, StorageError
from mulo_ray.storage import Ledger, Store, claim_run, plan
from mulo_ray.types import LedgerRow, Prompt

PIXELS = {"seed": 0, "temperature": 1.0, "tau": None, "sizes": [32, 64]}


def prompts(count: int) -> list[Prompt]:
    return [Prompt(key=str(n), text=f"text {n}") for n in range(count)]


def test_transient_failures_are_retried_permanent_ones_kept(tmp_path: Path) -> None:
    """reports C11: 7 done, 3 retried; a null caption is not retried; through a real ledger."""
    pairs = [(prompt, 0) for prompt in [*prompts(10), Prompt(key="null", text="", error="the caption is null")]]
    ledger = Ledger(Store(str(tmp_path)))
    for prompt, sample in pairs:
        flaky = prompt.key in ("2", "5", "7")
        status = "failed" if flaky or prompt.error else "ok"
        ledger.append([LedgerRow(key=prompt.key, sample=sample, prompt=prompt.text, transient=flaky, status=status)])
    result = plan(pairs, ledger.rows())
    assert [p.key for p, _ in result.todo] == [p.key for p, _ in result.retried] == ["2", "5", "7"]
    assert len(result.done) == 7
    assert [p.key for p, _ in result.failed_for_good] == ["null"]
    assert str(result) == "7 already done, 3 retried, 1 failed for good, 0 new"


def test_every_sample_is_planned_once_and_in_order() -> None:
    pairs = [(prompt, sample) for prompt in prompts(3) for sample in range(2)]
    rows = {("1", 0): LedgerRow(key="1", sample=0, status="ok", prompt="text 1")}
    result = plan(pairs, rows)
    assert result.todo == [pair for pair in pairs if (pair[0].key, pair[1]) != ("1", 0)]
    assert (result.done, result.retried) == ([pairs[2]], [])


def test_a_changed_caption_is_noticed() -> None:
    """Same key, other text: a finished image is refused, a failed row is tried again."""
    pairs = [(prompt, 0) for prompt in prompts(2)]
    failed = {("0", 0): LedgerRow(key="0", sample=0, status="failed", prompt="")}
    assert plan(pairs, failed).retried == pairs[:1]
    done = {("1", 0): LedgerRow(key="1", sample=0, status="ok", prompt="another")}
    with pytest.raises(ResumeError, match=r"key '1': made for 'another', now 'text 1'"):
        plan(pairs, done)


def test_the_first_run_claims_the_place_and_the_same_run_resumes(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert claim_run(store, {"output": "x"}, PIXELS, "aa") is True
    assert claim_run(store, {"output": "y"}, PIXELS, "aa") is False
    content = json.loads(store.get("run.json"))
    assert content["config"] == {"output": "x"}
    assert content["pixels"] == PIXELS
    assert {"mulo_ray", "python", "torch"} <= set(content["versions"])


def test_another_run_is_refused_with_every_field(tmp_path: Path) -> None:
    """reports D7: a changed config names its fields with both values."""
    store = Store(str(tmp_path))
    claim_run(store, {}, PIXELS, "aa")
    store.put("images/a-0.png", b"made under aa")
    with pytest.raises(ResumeError) as caught:
        claim_run(store, {}, {**PIXELS, "seed": 7, "sizes": (32, 64), "new": True}, "bb")
    said = str(caught.value)
    assert "new: 'absent' there, True here; seed: 0 there, 7 here" in said
    assert "temperature" not in said
    assert "sizes" not in said  # a tuple is a list in JSON
    assert "another --output" in said


def test_a_run_that_made_nothing_gives_way(tmp_path: Path) -> None:
    """One refused before its first image (too few devices, say) must not hold the output against a corrected one."""
    store = Store(str(tmp_path))
    claim_run(store, {"n": 1}, PIXELS, "aa")
    assert claim_run(store, {"n": 2}, {**PIXELS, "seed": 7}, "bb") is True
    assert json.loads(store.get("run.json"))["pixel_hash"] == "bb"


def test_a_torn_run_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"pixel_h')
    with pytest.raises(StorageError, match=r"run\.json is not a readable run file"):
        claim_run(Store(str(tmp_path)), {}, PIXELS, "aa")


def test_other_versions_warn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(str(tmp_path))
    claim_run(store, {}, PIXELS, "aa")
    content = json.loads(store.get("run.json"))
    content["versions"]["torch"] = "0.1"
    store.put("run.json", json.dumps(content).encode())
    assert claim_run(store, {}, PIXELS, "aa") is False
    assert "bytes may differ" in caplog.text

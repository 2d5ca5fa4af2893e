"""The ledger: one effective row per pair, whatever crashed (docs/reports.md C12)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulo_ray.errors import StorageError
from mulo_ray.storage import Ledger, Store
from mulo_ray.types import LedgerRow


def row(key: str, status: Any = "ok", **more: Any) -> LedgerRow:
    return LedgerRow(key=key, sample=more.pop("sample", 0), status=status, **more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def test_a_row_comes_back_as_it_was(store: Store) -> None:
    full = row(
        "k/\u00fc", uri="s3://b/x", bytes=7, sha256="ab", prompt="line\n\0 \U0001f98a", prompt_used="p", attempts=3,
        error="e", transient=True, stats='{"forwards": 3}', sample=2,
    )  # fmt: skip
    Ledger(store).append([full])
    assert Ledger(store).rows() == {("k/\u00fc", 2): full}


def test_ok_beats_failed_else_the_latest_part_wins(store: Store) -> None:
    Ledger(store).append([row("a"), row("b", "failed", error="first"), row("c", "failed")])
    Ledger(store).append([row("a", "failed"), row("b", "failed", error="second"), row("c", attempts=2)])
    rows = Ledger(store).rows()
    assert {key: (r.status, r.error, r.attempts) for (key, _), r in rows.items()} == {
        "a": ("ok", "", 1), "b": ("failed", "second", 1), "c": ("ok", "", 2),
    }  # fmt: skip


def test_a_later_run_comes_last_even_if_its_clock_is_behind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger(store).append([row("a", "failed", error="old")])
    monkeypatch.setattr("time.time_ns", lambda: 5)
    Ledger(store).append([row("a", "failed", error="new")])
    assert Ledger(store).rows()["a", 0].error == "new"


def test_no_rows_make_no_part(store: Store) -> None:
    Ledger(store).append([])
    assert store.list() == {}
    assert Ledger(store).rows() == {}


def test_compacting_keeps_the_effective_rows(store: Store) -> None:
    ledger = Ledger(store)
    for n in range(6):
        ledger.append([row(f"k{n % 4}", "failed" if n % 2 else "ok", attempts=n + 1)])
    before = ledger.rows()
    assert ledger.compact() == 6
    assert len(store.list("ledger/")) == 1
    assert Ledger(store).rows() == before
    assert ledger.compact() == 1
    ledger.append([row("k1", "ok", attempts=9)])
    assert Ledger(store).rows()["k1", 0].attempts == 9


@pytest.mark.parametrize("survived", range(7))
def test_a_crash_while_compacting_loses_nothing(store: Store, survived: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """reports C12: stop after 0, 1, ... writes and deletions; then compact again."""
    ledger = Ledger(store)
    for n in range(5):
        ledger.append([row(f"k{n % 3}", "failed", error=str(n))])
    before = ledger.rows()
    with monkeypatch.context() as patch:
        left = [survived]
        for method in ("put", "delete"):
            patch.setattr(Store, method, crash_after(left, getattr(Store, method)))
        if survived < 6:
            with pytest.raises(KeyboardInterrupt):
                ledger.compact()
        else:
            ledger.compact()
    assert Ledger(store).rows() == before
    Ledger(store).compact()
    assert Ledger(store).rows() == before
    assert len(store.list("ledger/")) == 1


def test_a_part_appended_while_compacting_stays_the_latest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(store)
    for n in range(2):
        ledger.append([row("a", "failed", error=str(n))])
    original = Ledger._read

    def slow_read(self: Ledger, names: Any) -> Any:
        parts = original(self, names)
        Ledger(store).append([row("a", "failed", error="meanwhile")])
        return parts

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_read", slow_read)
        ledger.compact()
    assert Ledger(store).rows()["a", 0].error == "meanwhile"


def test_torn_and_foreign_files_are_named(store: Store) -> None:
    """reports C10: never a silent loss of rows."""
    Ledger(store).append([row("a")])
    (good,) = store.list("ledger/")
    torn = good.replace("part-000001", "part-000002")
    store.put(torn, store.get(good)[:-20])
    with pytest.raises(StorageError, match=f"no whole ledger parts: {torn}"):
        Ledger(store).rows()
    store.delete(torn)
    store.put("ledger/notes.txt", b"hello")
    with pytest.raises(StorageError, match=r"no whole ledger parts: ledger/notes\.txt"):
        Ledger(store).rows()
    with pytest.raises(StorageError, match=r"notes\.txt"):
        Ledger(store).append([row("b")])


def test_the_ledger_on_s3(s3_uri: str) -> None:
    ledger = Ledger(Store(s3_uri))
    for n in range(3):
        ledger.append([row(f"k{n}"), row("again", "failed", error=str(n))])
    before = Ledger(Store(s3_uri)).rows()
    assert [before[key].error for key in (("again", 0), ("k0", 0))] == ["2", ""]
    ledger.compact()
    assert Ledger(Store(s3_uri)).rows() == before


def crash_after(left: list[int], method: Callable[..., Any]) -> Callable[..., Any]:
    def crashing(*args: Any, **kwargs: Any) -> Any:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return method(*args, **kwargs)

    return crashing

"""What is left to do: every (prompt, sample) of the job against the ledger. Pure; knows no store, no Ray."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mulo_ray.errors import ResumeError
from mulo_ray.types import LedgerRow, Prompt

Pair = tuple[Prompt, int]


@dataclass(slots=True, kw_only=True)
class Plan:
    """Every pair is in one of todo, done, failed_for_good; `retried` is the part of todo that failed before."""

    todo: list[Pair] = field(default_factory=list)  # in the order of the job
    done: list[Pair] = field(default_factory=list)
    failed_for_good: list[Pair] = field(default_factory=list)
    retried: list[Pair] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{len(self.done)} already done, {len(self.retried)} retried, {len(self.failed_for_good)} failed for good, "
            f"{len(self.todo) - len(self.retried)} new"
        )


def plan(pairs: Iterable[Pair], rows: Mapping[tuple[str, int], LedgerRow]) -> Plan:
    """ok is done; a transient failure is tried again; another failure stays, unless its caption was changed since.

    Raises ResumeError when a finished key now has another caption: the picture would not show what the file says.
    """
    result = Plan()
    changed: list[tuple[Prompt, LedgerRow]] = []
    for prompt, sample in pairs:
        row = rows.get((prompt.key, sample))
        if row is None:
            result.todo.append((prompt, sample))
        elif row.status == "ok":
            result.done.append((prompt, sample))
            if row.prompt and row.prompt != prompt.text:
                changed.append((prompt, row))
        elif row.transient or row.prompt != prompt.text:
            result.todo.append((prompt, sample))
            result.retried.append((prompt, sample))
        else:
            result.failed_for_good.append((prompt, sample))
    if changed:
        prompt, row = changed[0]
        raise ResumeError(
            f"{len(changed)} finished images belong to other captions than the file now gives; the first is key "
            f"{prompt.key!r}: made for {row.prompt[:80]!r}, now {prompt.text[:80]!r}. Use the former captions file and "
            "--captions rule, or another --output"
        )
    return result

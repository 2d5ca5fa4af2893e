"""The composition root: joins prompts, ledger, worker groups, storage and the report into one run.

The one file that may import every room. Knows no tensor and no file format of its own.
"""

import contextlib
import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from mulo_ray.config import JobConfig, pixel_hash
from mulo_ray.engine import Engine, family_engine
from mulo_ray.errors import RunError, UsageError
from mulo_ray.evaluation.report import write_report
from mulo_ray.evaluation.summary import Totals
from mulo_ray.prompts import read_prompts
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed
from mulo_ray.storage import Lease, Ledger, Plan, Store, claim_run, object_name, plan
from mulo_ray.types import LedgerRow, Prompt, Report
from mulo_ray.work import make_images
from mulo_ray.workers.progress import Progress
from mulo_ray.workers.recorder import Recorder
from mulo_ray.workers.roles import Item
from mulo_ray.workers.session import in_ray_job, session

MAX_FAILURES_SHOWN = 100
HOPELESS_ROWS = 32
"""When this many rows failed, none was made and no prompt is to blame, the fault is not in the rows."""

Pair = tuple[Prompt, int]
Blocks = list[tuple[int, list[Item]]]


def run(config: JobConfig, prompts: Sequence[Prompt] | None = None, *, engine: Engine | None = None) -> Report:
    """Make every image of `config` that its output does not hold yet; the report, also written beside the images.

    `prompts` replaces the captions file; `engine` the family named in the config. Raises UsageError before any work,
    RunError when the run cannot go on, KeyboardInterrupt when it was stopped; the same call then continues it.
    """
    started = time.monotonic()
    _refuse_lost_output(config.output.output)
    prompts = _prompts(config) if prompts is None else prompts
    engine = engine or family_engine(config.model)
    config = resolve(config, engine.card)
    engine.check(config)
    pairs = [(prompt, sample) for prompt in prompts for sample in range(config.input.samples_per_prompt)]
    store = Store(config.output.output)
    store.probe()
    with Lease(store, say=_say) as lease:
        store.sweep()  # what writers of a killed run left half-written
        pixels = config.pixel_fields() | engine.pixel_fields()
        resolved = dataclasses.asdict(config) | {"pixel_hash": pixel_hash(pixels)}
        claim_run(store, resolved, pixels, resolved["pixel_hash"])
        ledger = Ledger(store)
        rows = ledger.rows()
        todo = plan(pairs, rows)
        report = Report(
            total=len(pairs),
            done_before=len(todo.done),
            retried=len(todo.retried),
            max_failed=config.output.max_failed,
            output=store.uri,
        )
        _say(f"{len(pairs)} images to {store.uri}: {todo}")
        unusable = [_unusable(prompt, sample) for prompt, sample in todo.todo if prompt.error]
        ledger.append(unusable)
        blocks = cut_blocks(config, pairs, todo)
        made = Made()
        if not blocks:
            _say("nothing left to make")
            _close(report, store, ledger, resolved, pairs, made, started)
            return report
        failed_before = len(todo.failed_for_good) + len(unusable)
        progress = Progress(total=len(pairs), done_before=report.done_before, failed_before=failed_before)
        _say("starting Ray")
        with session(verbose=config.output.verbose), _stoppable():
            try:
                with Recorder(append=ledger.append, check=lease.check, progress=progress) as recorder:
                    for some in make_images(config, engine, PutImage(store), blocks, report, _say):
                        recorder.add(some)
                        made.add(some)
            except RunError:
                # The report of a broken run is worth having; what broke it is worth more.
                with contextlib.suppress(RunError):
                    _close(report, store, ledger, resolved, pairs, made, started)
                raise
            _close(report, store, ledger, resolved, pairs, made, started)
            return report


class Made:
    """What this session made, summed up as it comes: a run of a million images keeps none of their rows here."""

    def __init__(self) -> None:
        self.images = self._in_vain = 0
        self.totals = Totals()

    def add(self, rows: Sequence[LedgerRow]) -> None:
        """Raises RunError when nothing works: before the run spends hours on failing row by row."""
        for row in rows:
            self.images += row.status == "ok"
            self.totals.add(row)
            hopeless = row.status == "failed" and row.transient and self._in_vain >= 0
            self._in_vain = self._in_vain + 1 if hopeless else -1
        if self._in_vain >= HOPELESS_ROWS:
            raise RunError(
                f"the first {self._in_vain} images all failed, the last with: {rows[-1].error}; nothing was made"
            )


class PutImage:
    """The writer's `put`: one object per image, named by its identity. Travels to the workers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, key: str, sample: int, data: bytes) -> str:
        name = object_name(key, sample)
        self._store.put(name, data)
        return self._store.uri_of(name)


def cut_blocks(config: JobConfig, pairs: Sequence[Pair], todo: Plan) -> Blocks:
    """Micro-batches of what is left.

    With batch invariance they are cut from the rest. Without it a picture depends on its company, so they are cut from
    the whole list, and a block with anything left in it is decoded as a whole.
    """
    left = {(prompt.key, sample) for prompt, sample in todo.todo}
    usable = [pair for pair in pairs if not pair[0].error]
    if config.run.batch_invariant:
        usable = [(prompt, sample) for prompt, sample in usable if (prompt.key, sample) in left]
    size, seed = config.run.batch_size, config.sampling.seed
    blocks: Blocks = []
    for start in range(0, len(usable), size):
        items = [
            Item(
                key=prompt.key,
                sample=sample,
                text=prompt.text,
                seed=image_seed(seed, prompt.key, sample),
                wanted=(prompt.key, sample) in left,
            )
            for prompt, sample in usable[start : start + size]
        ]
        if any(item.wanted for item in items):
            blocks.append((start // size, items))
    return blocks


def _close(
    report: Report,
    store: Store,
    ledger: Ledger,
    resolved: dict[str, Any],
    pairs: Sequence[Pair],
    made: Made,
    started: float,
) -> None:
    """Tidy the output, fill the report from the ledger and write it; prints where it lies."""
    store.sweep()  # what writers that died in this run left
    ledger.compact()
    rows = ledger.rows()
    mine = [rows[prompt.key, sample] for prompt, sample in pairs if (prompt.key, sample) in rows]
    failed = [row for row in mine if row.status == "failed"]
    report.made, report.failed = made.images, len(failed)
    report.seconds = time.monotonic() - started
    report.images_per_s = report.made / report.seconds
    report.decoding = dataclasses.asdict(made.totals.summary())
    report.failures = [
        {
            "key": row.key,
            "sample": row.sample,
            "prompt": row.prompt[:80],
            "error": row.error,
            "transient": row.transient,
        }
        for row in failed[:MAX_FAILURES_SHOWN]
    ]
    write_report(store, report, rows, resolved)
    _say(
        f"{report.made} made, {report.done_before} already there, {report.failed} failed, {report.seconds:.0f} s: "
        f"{report.report_html}"
    )


def _prompts(config: JobConfig) -> list[Prompt]:
    if config.input.captions_file is None:
        raise UsageError("--captions-file is needed: a .json, .jsonl, .csv, .tsv, .parquet or .txt file or its URI")
    return read_prompts(config.input.captions_file, captions=config.input.captions, limit=config.input.limit)


def _unusable(prompt: Prompt, sample: int) -> LedgerRow:
    return LedgerRow(key=prompt.key, sample=sample, status="failed", prompt=prompt.text, error=prompt.error or "")


def _refuse_lost_output(output: str) -> None:
    """Places from which no image would ever be read again."""
    if output.startswith("memory://"):
        raise UsageError(
            f"--output {output!r} would stay in the memory of the worker processes and end with them: give a local "
            "directory or the URI of a store that outlives the run, such as s3://bucket/prefix"
        )
    if in_ray_job() and "://" not in output and not os.path.isabs(output):
        raise UsageError(
            f"--output {output!r} is relative, and a Ray job runs in a copy of the working directory that is deleted "
            "with it: give a URI such as s3://bucket/prefix, or an absolute path on a disk that all nodes share"
        )


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops a run like Ctrl-C does. Ray replaces handlers when it starts, so this comes after."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)

"""Methods side by side, in one process, without Ray: speed over settings and batch sizes, and quality beside it.

    python jobs/compare.py --decoders ar,zipar,exact,mulo --batch 1,4,16 --limit 32 --output out/compare
    python jobs/compare.py --decoders zipar,mulo --sweep --headlines "zipar s=4,mulo"     goes on where it stopped
    python jobs/compare.py runs out/ar out/mulo --output out/compare                      finished runs of a job

The first two leave compare.json and compare.html. `runs` makes no image; it refuses runs whose sampling settings, model
or captions differ.
"""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

from mulo_ray import cli
from mulo_ray.bench.compare import compare
from mulo_ray.bench.options import CompareOptions
from mulo_ray.evaluation.comparison import comparison_text, read_run, run_sheet, write_comparison
from mulo_ray.storage import Ledger, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOptions:
    """The outputs to compare, the yardstick first."""

    outputs: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Outputs of finished runs."""
    output: str = "out/compare"
    """Where the comparison goes."""


def runs(options: RunsOptions) -> None:
    """Read the runs; write the table, the page and one contact sheet per run."""
    stores = [Store(output) for output in options.outputs]
    found = [read_run(store, Ledger(store).rows()) for store in stores]
    out = Store(options.output)
    print(comparison_text(write_comparison(out, found)))
    for number, run in enumerate(found):
        out.put(f"sheet-{number}-{run.label}.png", run_sheet(run))
    print(f"see {out.uri_of('comparison.html')}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["runs"]:
        outputs = cli.parse(RunsOptions, "Compare finished runs.", RunsOptions(), sys.argv[2:])
        sys.exit(cli.main(lambda: runs(outputs)))
    options = cli.parse(CompareOptions, "Compare methods; `compare.py runs A B` compares runs.", CompareOptions())
    command = f"python jobs/compare.py {shlex.join(sys.argv[1:])}"
    sys.exit(cli.main(lambda: print(compare(options, command))))

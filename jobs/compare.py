"""Finished runs side by side: seconds, forwards and query positions per image, and the same captions drawn by each.

    python jobs/compare.py out/ar out/mulo --output out/compare

Refuses runs whose sampling settings, model or captions differ. Makes no image.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

from mulo_ray import cli
from mulo_ray.evaluation.comparison import comparison_text, read_run, run_sheet, write_comparison
from mulo_ray.storage import Ledger, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """The outputs to compare, the yardstick first."""

    outputs: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Outputs of finished runs."""
    output: str = "out/compare"
    """Where the comparison goes."""


def job(options: CompareOptions) -> None:
    """Read the runs; write the table, the page and one contact sheet per run."""
    stores = [Store(output) for output in options.outputs]
    runs = [read_run(store, Ledger(store).rows()) for store in stores]
    out = Store(options.output)
    print(comparison_text(write_comparison(out, runs)))
    for number, run in enumerate(runs):
        out.put(f"sheet-{number}-{run.label}.png", run_sheet(run))
    print(f"see {out.uri_of('comparison.html')}")


if __name__ == "__main__":
    options = cli.parse(CompareOptions, "Compare finished runs.", CompareOptions())
    sys.exit(cli.main(lambda: job(options)))
